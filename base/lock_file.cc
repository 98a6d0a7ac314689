#include "base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace castor {
namespace {

constexpr int kAttempts = 1000;
// More than any holder writes.
constexpr int64_t kMaxTextBytes = 4096;

absl::Status Error(const char* what, absl::string_view path, int error) {
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot ", what, " the lock file ", path));
}

std::string TextOf(int fd) {
  std::string text(kMaxTextBytes, '\0');
  const ssize_t n = pread(fd, text.data(), text.size(), 0);
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return text;
}

}  // namespace

LockResult TryLock(int fd) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? LockResult::kHeld : LockResult::kUnsupported;
  }
  return LockResult::kLocked;
}

bool IsNamed(int fd, const std::string& path) {
  struct stat open_file, named;
  return fstat(fd, &open_file) == 0 && lstat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

LockFile::LockFile(std::string path, int fd)
    : path_(std::move(path)), fd_(fd) {}

absl::StatusOr<std::unique_ptr<LockFile>> LockFile::Take(std::string path) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // The file is opened for writing, since network file systems lock no other.
    // A pipe of that name does not make it wait, nor does a link lead it
    // elsewhere.
    const int fd =
        open(path.c_str(),
             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0) return Error("open", path, errno);
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      close(fd);
      return absl::InvalidArgumentError(absl::StrCat(
          "the lock file ", path, " is no regular file: remove it"));
    }
    switch (TryLock(fd)) {
      case LockResult::kLocked:
        // The former holder may have removed it meanwhile.
        if (IsNamed(fd, path)) {
          return std::unique_ptr<LockFile>(new LockFile(std::move(path), fd));
        }
        close(fd);
        continue;
      case LockResult::kHeld: {
        std::string holder = TextOf(fd);
        close(fd);
        return absl::FailedPreconditionError(holder);
      }
      case LockResult::kUnsupported: {
        const int error = errno;
        close(fd);
        return absl::UnimplementedError(Error("lock", path, error).message());
      }
    }
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("the lock file ", path, " is replaced again and again"));
}

LockFile::~LockFile() {
  // Removed first: who opens it from now on makes a new one.
  if (IsNamed(fd_, path_)) unlink(path_.c_str());
  close(fd_);
}

absl::Status LockFile::Write(absl::string_view text) {
  if (ftruncate(fd_, 0) != 0) return Error("empty", path_, errno);
  for (size_t at = 0; at < text.size();) {
    const ssize_t n =
        pwrite(fd_, text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error("write", path_, errno);
    at += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

}  // namespace castor
