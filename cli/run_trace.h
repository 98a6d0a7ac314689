// The trace file of a run: the step's traces, and what happened in a window of
// steps after the warm-up.
#ifndef CASTOR_CLI_RUN_TRACE_H_
#define CASTOR_CLI_RUN_TRACE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/trainer.h"
#include "tracer/trace_file.h"

namespace castor::cli {

class RunTrace {
 public:
  // Writes to `path` from now on. `trainer` outlives the trace; its events go
  // here. Spans are written for training steps up to `last_step`.
  static absl::StatusOr<std::unique_ptr<RunTrace>> Create(
      const std::string& path, Trainer* trainer, int64_t last_step);
  ~RunTrace();

  // After a step: the traces that are new or newly measured, and the memory.
  absl::Status Update();
  // The first failure to write, of spans too.
  const absl::Status& status() const { return status_; }

 private:
  RunTrace(std::unique_ptr<TraceWriter> writer, Trainer* trainer,
           int64_t last_step);
  void OnEvent(const TimelineEvent& event, int64_t step);

  const std::unique_ptr<TraceWriter> writer_;
  Trainer* const trainer_;
  const int64_t last_step_;
  const int64_t origin_ns_;
  int64_t peak_bytes_ = 0;  // of the last record of a peak
  bool wrote_estimated_ = false;
  bool wrote_measured_ = false;
  absl::Status status_;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_TRACE_H_
