// The trace's file: JSON lines, complete up to the instant of a crash.
// docs/trace-format.md describes every record; this header is its C++ side.
//
// The first line names format and version; each further line is one record:
//   step_trace  a StepTrace (tracer/step_trace.h): what the planner needs
//   span        something that took time on one stream
//   memory      bytes in use on one tier at one instant, by category
// A writer hands each record to the system in one piece before it returns, so a
// killed process leaves whole lines, but for at most a last one, which the
// reader leaves out and reports.
#ifndef CASTOR_TRACER_TRACE_FILE_H_
#define CASTOR_TRACER_TRACE_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tracer/step_trace.h"

namespace castor {

inline constexpr int64_t kTraceFormatVersion = 1;

// Times are in nanoseconds from one origin per file, the start of the run.
struct SpanRecord {
  std::string stream;  // "compute", "h2d", "d2h", "host", ...
  std::string name;    // an operator, a copy, or the cause of a wait
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // >= start_ns
  int64_t step = 0;    // from 1; 0: before the first step

  friend bool operator==(const SpanRecord&, const SpanRecord&) = default;
};

struct MemoryRecord {
  std::string tier;  // "device", "host", ...
  int64_t time_ns = 0;
  std::map<std::string, int64_t> bytes;  // by category

  friend bool operator==(const MemoryRecord&, const MemoryRecord&) = default;
};

// Thread-safe: records of several threads follow each other whole.
class TraceWriter {
 public:
  // Replaces what is at `path`. Unavailable: the file cannot be written.
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(
      const std::string& path);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Each returns when the system has the record. Names should be UTF-8: bytes
  // that are not are replaced. Unavailable: not written, for example because
  // the disk is full; what was written before stays readable.
  // InvalidArgument: a record that the reader would refuse for its size.
  absl::Status Append(const StepTrace& trace);
  absl::Status Append(const SpanRecord& span);
  absl::Status Append(const MemoryRecord& memory);

  const std::string& path() const { return path_; }

 private:
  TraceWriter(std::string path, int fd);
  absl::Status WriteLine(std::string line);

  const std::string path_;
  std::mutex mutex_;
  const int fd_;
  absl::Status failure_;  // the first; later records are not tried
};

struct TraceContents {
  std::vector<StepTrace> step_traces;
  std::vector<SpanRecord> spans;
  std::vector<MemoryRecord> memory;
  // The file ends within a line, which is left out: its writer was stopped.
  bool truncated = false;
};

// Reads and checks the whole file: types, ranges, chunk ids, limits on counts
// and sizes. Every error names the file and the line. NotFound: no such file.
// InvalidArgument: not a trace, another version, or anything out of order.
absl::StatusOr<TraceContents> ReadTraceFile(const std::string& path);

// The same from memory; `source` names it in messages.
absl::StatusOr<TraceContents> ParseTrace(absl::string_view text,
                                         absl::string_view source = "trace");

// Limits of a file that the reader accepts.
inline constexpr int64_t kMaxTraceBytes = int64_t{4} << 30;
inline constexpr int64_t kMaxTraceLineBytes = 64 << 20;
inline constexpr int64_t kMaxTraceNameBytes = 4096;
inline constexpr int64_t kMaxTraceItems = 1'000'000;          // of one list
inline constexpr int64_t kMaxTraceNumber = int64_t{1} << 60;  // bytes, ns

}  // namespace castor

#endif  // CASTOR_TRACER_TRACE_FILE_H_
