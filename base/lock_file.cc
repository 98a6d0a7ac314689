#include "base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

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

absl::Status NoRegularFile(absl::string_view path) {
  return absl::InvalidArgumentError(
      absl::StrCat("the lock file ", path, " is no regular file: remove it"));
}

absl::Status BelongsToAnother(absl::string_view path, uid_t user) {
  return absl::PermissionDeniedError(
      absl::StrCat("the lock file ", path,
                   " belongs to another user (of number ", user, ")"));
}

absl::Status CannotOpen(const std::string& path, int error) {
  struct stat info;
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return NoRegularFile(path);
    if (error == EACCES && info.st_uid != geteuid()) {
      return BelongsToAnother(path, info.st_uid);
    }
  }
  return Error("open", path, error);
}

// The process that holds the lock of the file, by Linux' list of all locks; 0:
// it does not say.
int64_t HolderOf(const struct stat& info) {
  std::ifstream locks("/proc/locks");
  const std::string file =
      absl::StrFormat("%02x:%02x:%d", major(info.st_dev), minor(info.st_dev),
                      static_cast<int64_t>(info.st_ino));
  for (std::string line; std::getline(locks, line);) {
    // "1: FLOCK  ADVISORY  WRITE 2718 08:01:42 0 EOF"
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t process = 0;
    if (words.size() >= 6 && words[1] == "FLOCK" && words[5] == file &&
        absl::SimpleAtoi(words[4], &process)) {
      return std::max<int64_t>(process, 0);
    }
  }
  return 0;
}

// Returns true if `process` is known to be another user's.
bool IsOfStranger(int64_t process) {
  struct stat info;
  return process > 0 &&
         stat(absl::StrCat("/proc/", process).c_str(), &info) == 0 &&
         info.st_uid != geteuid() && info.st_uid != 0;
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

LockFile::Attempt LockFile::TryTake(const std::string& path) {
  const auto impossible = [](absl::Status why) {
    return Attempt{.why = std::move(why)};
  };
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // The file is opened for writing, since network file systems lock no other.
    // A pipe of that name does not make it wait, nor does a link lead it
    // elsewhere.
    const int fd =
        open(path.c_str(),
             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) return impossible(CannotOpen(path, errno));
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      close(fd);
      return impossible(NoRegularFile(path));
    }
    const bool own = info.st_uid == geteuid();
    // An earlier castor let others read it.
    if (own && (info.st_mode & 0077) != 0) fchmod(fd, 0600);
    switch (TryLock(fd)) {
      case LockResult::kLocked:
        // The former holder may have removed it meanwhile.
        if (!IsNamed(fd, path)) {
          close(fd);
          continue;
        }
        if (info.st_nlink > 1) {
          close(fd);
          return impossible(absl::InvalidArgumentError(absl::StrCat(
              "the lock file ", path, " has another name, too: remove it")));
        }
        return {.outcome = Attempt::Outcome::kTaken,
                .lock = std::unique_ptr<LockFile>(new LockFile(path, fd))};
      case LockResult::kHeld: {
        const int64_t holder = HolderOf(info);
        const bool stranger = IsOfStranger(holder);
        std::string text = TextOf(fd);
        const bool named = IsNamed(fd, path);
        close(fd);
        if (!own && info.st_uid != 0) {
          return impossible(BelongsToAnother(path, info.st_uid));
        }
        // Somebody who may read the file, not write it, has locked it: that
        // lock is no right to what the file stands for.
        if (own && named && stranger && unlink(path.c_str()) == 0) continue;
        return {.outcome = Attempt::Outcome::kHeld,
                .holder_text = std::move(text),
                .holder_process = holder};
      }
      case LockResult::kUnsupported: {
        const int error = errno;
        close(fd);
        return impossible(
            absl::UnimplementedError(Error("lock", path, error).message()));
      }
    }
  }
  return impossible(absl::ResourceExhaustedError(
      absl::StrCat("the lock file ", path, " is replaced again and again")));
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
