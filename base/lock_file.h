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

// Does not wait. The lock lasts until `fd` and its copies are closed.
LockResult TryLock(int fd);

// Whether `path` still names the open file. Between the opening of a file and
// its lock another process may have removed it, and made a new one.
bool IsNamed(int fd, const std::string& path);

// A file by which one process at a time has something for itself. Who is
// refused can read in it who that is. Nobody but its user may open it: who can
// read a file could lock it.
class LockFile {
 public:
  // What came of an attempt to take one.
  struct Attempt {
    enum class Outcome {
      kTaken,       // here is the lock
      kHeld,        // somebody has it
      kImpossible,  // there can be no lock of this name, and why
    };
    Outcome outcome = Outcome::kImpossible;
    std::unique_ptr<LockFile> lock = nullptr;
    // What the holder has written, or "".
    std::string holder_text = {};
    // The holder as the system knows it; 0: it does not say.
    int64_t holder_process = 0;
    // Unimplemented: the file system has no locks. NotFound: there is no such
    // directory. PermissionDenied: another user has put a lock file there.
    // InvalidArgument: what has the name is no file.
    absl::Status why = {};
  };

  // Makes the file where it is missing, and locks it. Does not wait.
  static Attempt TryTake(const std::string& path);
  // Removes the file: what is left behind by a process that was killed is taken
  // over by the next one.
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  // Replaces what the file holds.
  absl::Status Write(absl::string_view text);

  const std::string& path() const { return path_; }

 private:
  LockFile(std::string path, int fd);

  const std::string path_;
  const int fd_;
};

}  // namespace castor

#endif  // CASTOR_BASE_LOCK_FILE_H_
