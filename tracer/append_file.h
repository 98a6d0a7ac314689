// A file that grows by whole lines, each of which survives the process.
//
// Lines are copied into the system's own pages of the file (a shared mapping),
// which costs a tenth of a call to write() and loses nothing when the process
// is killed. Until it is closed, the file is longer than its text: zero bytes
// follow the last line. A reader that meets the file so, of a process that runs
// or was killed, drops them. A line's end is stored after the rest of it, so
// what looks whole is whole.
//
// Where a file cannot be mapped (a pipe, /dev/null), lines are written.
#ifndef CASTOR_TRACER_APPEND_FILE_H_
#define CASTOR_TRACER_APPEND_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

// Threads: one at a time.
class AppendFile {
 public:
  // Replaces what is at `path`. Unavailable: it cannot be created.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Create(
      const std::string& path);
  // Cuts the file to its text.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // `line` ends with its newline. Unavailable: it is not, or not all, in the
  // file, for example because the disk is full; do not append after that.
  absl::Status Append(absl::string_view line);

  const std::string& path() const { return path_; }

 private:
  AppendFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status Failure(absl::string_view what, int error) const;
  absl::Status WriteOut(absl::string_view text);
  // The next window of the file, with room on the disk.
  absl::Status MapNext();

  const std::string path_;
  const int fd_;
  bool mapped_ = true;      // false: lines are written
  int64_t size_ = 0;        // of the text
  char* window_ = nullptr;  // of the file, from window_begin_
  int64_t window_begin_ = 0;
};

}  // namespace castor

#endif  // CASTOR_TRACER_APPEND_FILE_H_
