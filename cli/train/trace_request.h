// What the trace of `castor train --trace` says of the run.
#ifndef CASTOR_CLI_TRAIN_TRACE_REQUEST_H_
#define CASTOR_CLI_TRAIN_TRACE_REQUEST_H_

#include "runtime/config/config.h"
#include "tracer/trace_file.h"

namespace castor::cli {

RunRecord DescribeRun(const Config& config);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_TRACE_REQUEST_H_
