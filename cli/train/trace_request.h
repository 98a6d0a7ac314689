// Describes a run for the trace of `castor train --trace`.
#ifndef CASTOR_CLI_TRAIN_TRACE_REQUEST_H_
#define CASTOR_CLI_TRAIN_TRACE_REQUEST_H_

#include "run/config/config.h"
#include "tracer/trace_file.h"

namespace castor::cli {

// `tokens_per_step`: without padding.
RunRecord DescribeRun(const Config& config, double tokens_per_step);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_TRACE_REQUEST_H_
