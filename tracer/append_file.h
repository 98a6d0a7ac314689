// A file that grows by whole lines, each of which survives a kill of the
// process.
//
// Lines are copied into the system's own pages of the file (a shared mapping),
// which costs a tenth of a call to write() and loses nothing when the process
// is killed. Until it is closed, the file is longer than its text: zero bytes
// follow the last line. A reader drops them, if the process still runs or was
// killed. A line's newline is stored after the rest of it, so a line with a
// newline is whole.
//
// If a file cannot be mapped (a pipe, /dev/null), lines are written.
//
// The file is always a new one: a former file of that name is replaced, never
// cut, since another process may have it open. A writer holds an advisory lock
// (flock) on its file; a file that is still written loses its name, too, but
// gets another.
#ifndef CASTOR_TRACER_APPEND_FILE_H_
#define CASTOR_TRACER_APPEND_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tracer/mapped_window.h"

namespace castor {

// Threads: one at a time.
class AppendFile {
 public:
  // Creates the file, and replaces an existing one at `path` once there is room
  // for the first lines. A file that a live process writes there is renamed
  // PATH.replaced-N. Unavailable: it cannot be created.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Create(
      const std::string& path);
  // Cuts the file to the length of its text.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Appends `line`, which ends with its newline. Unavailable: not all of it is
  // in the file, for example because the disk is full or another process has
  // cut the file; do not append after that. A full disk leaves whole lines.
  absl::Status Append(absl::string_view line);

  // Checks the file. Unavailable: another process has cut the file, has written
  // to it or removed it. Append notices a cut only if it is before the page
  // that it writes. Costs a system call.
  absl::Status Check() const;

  // Returns the file's present name. Unavailable: it was removed.
  absl::StatusOr<std::string> Place() const;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // of the text

 private:
  AppendFile(std::string path, int fd, bool regular)
      : path_(std::move(path)), fd_(fd), regular_(regular), maps_(regular) {}
  static absl::StatusOr<std::unique_ptr<AppendFile>> Open(
      const std::string& path);
  absl::Status Failure(absl::string_view what, int error) const;
  absl::Status WriteOut(absl::string_view text);
  absl::Status Copy(absl::string_view text);
  // Maps the next window of the file, with room on the disk.
  absl::Status MapNext();
  // Returns true if zeros stand in place of the text, which holds none:
  // somebody cut the file just before it grew, so that its length is as
  // expected.
  bool LostItsText() const;
  void CutTo(int64_t size);

  const std::string path_;
  const int fd_;
  const bool regular_;
  bool maps_;         // false: lines are written
  int64_t size_ = 0;  // of the text
  int64_t end_ = 0;   // of the file, unless others have changed it
  MappedWindow window_;
  int64_t window_begin_ = 0;
};

// Returns true if a live process has the file open as an AppendFile; false if
// that cannot be known.
bool IsBeingAppended(const std::string& path);

}  // namespace castor

#endif  // CASTOR_TRACER_APPEND_FILE_H_
