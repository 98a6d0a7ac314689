// What `castor train --trace` asks for, and what the trace says of the run.
#ifndef CASTOR_CLI_TRAIN_TRACE_REQUEST_H_
#define CASTOR_CLI_TRAIN_TRACE_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cli/train/run_trace.h"
#include "runtime/config/config.h"
#include "tracer/trace_file.h"

namespace castor::cli {

// The steps of --trace-steps, "FIRST:LAST" or "LAST"; where that is empty, from
// step `first` over the warm-up to some steps after it. InvalidArgument: it is
// neither.
absl::StatusOr<TraceWindow> WindowOf(const std::string& trace_steps,
                                     int64_t first, int64_t warmup_steps);

RunRecord DescribeRun(const Config& config);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_TRACE_REQUEST_H_
