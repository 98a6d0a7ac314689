// Writes a trace file (trace_file.h, docs/trace-format.md), record by record.
#ifndef CASTOR_TRACER_TRACE_WRITER_H_
#define CASTOR_TRACER_TRACE_WRITER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tracer/append_file.h"
#include "tracer/trace_file.h"

namespace castor {

// Thread-safe: records of several threads are not mixed.
//
// Each call returns when the system has the record. The first failure to write
// (a full disk, a file that another process cut, a trace of the largest size)
// is kept: later records are not written, and earlier ones stay readable.
// Strings should be UTF-8: other bytes are replaced, and longer strings than a
// trace may have are cut.
//
// Cost: the record of a single event (op, work, wait) takes some 100 ns and no
// memory.
class TraceWriter {
 public:
  // Creates the file, and replaces an existing one at `path`. Unavailable: the
  // file cannot be written. `ranks` is the run's number of ranks, `max_bytes`
  // the file's largest size, at most kMaxTraceBytes.
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(
      const std::string& path, int64_t ranks = 1,
      int64_t max_bytes = kMaxTraceBytes);
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // `run` has the writer's number of ranks.
  void Append(const RunRecord& run);
  // Return the index in the file of the appended record.
  int64_t Append(const StepTrace& trace);
  int64_t Append(const PlanRecord& plan);
  void Append(const StepRecord& step);
  void Append(const HostRecord& host);
  void Append(const BudgetRecord& budget);
  void Append(const ResultRecord& result);
  void Append(const RefusalRecord& refusal);
  void Append(const EndRecord& end);
  void Append(const ClockRecord& clock);

  // Append frequent records. The file has the step's tag instead of the index
  // of its step record; the reader resolves it.
  void AppendOp(int64_t tag, Moment moment, int64_t time_ns, int64_t used_bytes,
                absl::Span<const int64_t> bytes);
  void Append(const WorkRecord& work);
  void Append(const WaitRecord& wait);
  void Append(const NetworkRecord& network);

  // Returns the first failure. Unavailable: the first record that was not
  // written, and why. InvalidArgument: a record that the reader would refuse
  // for its size. ResourceExhausted: the file would be larger than the reader
  // accepts.
  absl::Status status() const;

  // As AppendFile's: Check keeps changes to the file by other processes as a
  // failure; Place returns the file's present name.
  void Check();
  absl::StatusOr<std::string> Place() const;

 private:
  TraceWriter(std::unique_ptr<AppendFile> file, int64_t ranks,
              int64_t max_bytes)
      : file_(std::move(file)), ranks_(ranks), max_bytes_(max_bytes) {}
  void Write(absl::string_view line);

  mutable std::mutex mutex_;
  const std::unique_ptr<AppendFile> file_;
  const int64_t ranks_;
  const int64_t max_bytes_;
  int64_t step_traces_ = 0;
  int64_t plans_ = 0;
  absl::Status failure_;
};

}  // namespace castor

#endif  // CASTOR_TRACER_TRACE_WRITER_H_
