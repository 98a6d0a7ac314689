// One or two trace files, as the viewer shows them.
#ifndef CASTOR_CLI_TRACE_TRACE_SOURCE_H_
#define CASTOR_CLI_TRACE_TRACE_SOURCE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "insight/trace_view.h"

namespace castor::cli {

// Reads `path` and derives the views of all its ranks, one at least, by rank.
// InvalidArgument, NotFound: it is no trace, or cannot be read, and why.
// ResourceExhausted: there is not the memory for it.
absl::StatusOr<std::vector<TraceView>> LoadTrace(const std::string& path);

// Where reading takes seconds, says so on standard error. 64 MiB take about
// one.
void AnnounceReading(const std::vector<std::string>& paths);

class TraceSource {
 public:
  // `paths`: one trace, or two to compare.
  explicit TraceSource(std::vector<std::string> paths)
      : paths_(std::move(paths)) {}

  // Returns the page's data, PageJson of the traces' views: of one trace those
  // of all its ranks, of two traces those of their first ranks. Read anew when
  // a file has changed since the last call, or may have: the trace of a run
  // that goes on. Thread-safe; one thread reads, the others wait for what it
  // has read.
  absl::StatusOr<std::shared_ptr<const std::string>> Json();

 private:
  absl::StatusOr<std::shared_ptr<const std::string>> ReadAnew();
  // A stamp tells one state of a file from another: device, inode, bytes, time
  // of the last change in ns.
  using Stamp = std::array<int64_t, 4>;
  static Stamp StampOf(const std::string& path);
  // Returns true if a change of the file shows in its stamp. It does not while
  // the file is written through a mapping (append_file.h); then zeros follow
  // its text.
  static bool StampTells(const std::string& path);

  const std::vector<std::string> paths_;
  std::mutex mutex_;
  std::vector<Stamp> stamps_;                // of json_'s files
  std::shared_ptr<const std::string> json_;  // null: not read
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRACE_TRACE_SOURCE_H_
