// Advisory locks (flock) on files: the kernel drops them with the process that
// holds them, however it ends.
#ifndef CASTOR_BASE_LOCK_FILE_H_
#define CASTOR_BASE_LOCK_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

enum class LockResult {
  kLocked,
  kHeld,         // by another open file, of this process or of another
  kUnsupported,  // the file system has no locks
};

// Tries to lock, without waiting. The lock lasts until `fd` and its copies are
// closed.
LockResult TryLock(int fd);

// Returns true if `path` still names the open file. Between the opening of a
// file and its lock another process may have removed it, and made a new one.
bool IsNamed(int fd, const std::string& path);

// A file that one process at a time locks. A process that is refused can read
// in it who the holder is. Only the file's user may open it, since whoever can
// read a file can lock it.
class LockFile {
 public:
  // The result of an attempt to take the lock.
  struct Attempt {
    enum class Outcome {
      kTaken,       // `lock` holds it
      kHeld,        // another process has it
      kImpossible,  // there can be no lock of this name; see `why`
    };
    Outcome outcome = Outcome::kImpossible;
    std::unique_ptr<LockFile> lock = nullptr;
    // The text that the holder has written, or "".
    std::string holder_text = {};
    // The holder's process id by the system; 0: not known.
    int64_t holder_process = 0;
    // Unimplemented: the file system has no locks. NotFound: there is no such
    // directory. PermissionDenied: another user has put a lock file there.
    // InvalidArgument: the entry of that name is no file.
    absl::Status why = {};
  };

  // Makes the file if it is missing, and locks it. Does not wait.
  static Attempt TryTake(const std::string& path);
  // Removes the file. The file that a killed process leaves behind is taken
  // over by the next one.
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  // Replaces the file's content.
  absl::Status Write(absl::string_view text);

  const std::string& path() const { return path_; }

 private:
  LockFile(std::string path, int fd);

  const std::string path_;
  const int fd_;
};

}  // namespace castor

#endif  // CASTOR_BASE_LOCK_FILE_H_
