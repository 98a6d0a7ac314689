#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/disk_room.h"
#include "base/lock_file.h"
#include "base/status_macros.h"

namespace castor {
namespace {

// The locks that show that nobody writes a temporary, held while it is removed:
// a maker that had not yet locked it finds that out, and takes another name.
class StaleLocks {
 public:
  StaleLocks() = default;
  ~StaleLocks() {
    for (const int fd : fds_) close(fd);
  }
  StaleLocks(const StaleLocks&) = delete;
  StaleLocks& operator=(const StaleLocks&) = delete;

  // Takes the lock of the file at `path`. Returns false if somebody else has
  // it, if that cannot be known, or if another file has taken the name
  // meanwhile.
  absl::StatusOr<bool> Take(const std::string& path) {
    struct stat info;
    if (lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return true;
    // The file is opened for writing since network file systems lock no other.
    // Whatever has taken the name since must not make this wait.
    const int fd =
        open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    // Somebody is at it.
    if (fd < 0 && errno == ENOENT) return false;
    if (fd < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
    }
    fds_.push_back(fd);
    return TryLock(fd) == LockResult::kLocked && IsNamed(fd, path);
  }

 private:
  std::vector<int> fds_;
};

// Removes the temporary at `path`, a file or a directory, if nobody writes it.
absl::StatusOr<bool> RemoveIfStale(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return false;  // finished meanwhile
  StaleLocks locks;
  if (S_ISDIR(info.st_mode)) {
    // One whose maker has not come to locking it is empty.
    if (rmdir(path.c_str()) == 0) return true;
    const absl::StatusOr<std::vector<std::string>> names = ListDirectory(path);
    if (absl::IsNotFound(names.status())) return false;
    CASTOR_RETURN_IF_ERROR(names.status());
    if (names->empty()) return false;  // of which the same is true
    for (const std::string& name : *names) {
      CASTOR_ASSIGN_OR_RETURN(const bool unheld,
                              locks.Take(absl::StrCat(path, "/", name)));
      if (!unheld) return false;
    }
  } else if (S_ISREG(info.st_mode)) {
    CASTOR_ASSIGN_OR_RETURN(const bool unheld, locks.Take(path));
    if (!unheld) return false;
  } else {
    return false;
  }
  CASTOR_RETURN_IF_ERROR(RemoveEntry(path));
  return true;
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string temporary_path, int fd)
    : path_(std::move(path)),
      temporary_path_(std::move(temporary_path)),
      fd_(fd) {}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(std::string path,
                                                               unsigned mode) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::string temporary = TemporaryName(path, attempt);
    const int fd =
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
      // Left by a process of the same number, or a second writer in this one.
      if (errno == EEXIST) continue;
      return absl::ErrnoToStatus(
          errno, absl::StrCat("cannot create a temporary file beside ", path));
    }
    // Without locks (some network file systems) the file is written all the
    // same: only the clean-up after another process is less careful. Else it
    // may have been taken for stale before it was locked.
    const LockResult locked = TryLock(fd);
    if (locked == LockResult::kHeld || !IsNamed(fd, temporary)) {
      close(fd);
      continue;
    }
    return std::unique_ptr<AtomicFile>(
        new AtomicFile(std::move(path), std::move(temporary), fd));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot create a temporary for ", path,
                   ": 1000 names are taken; remove ", path, ".tmp-*"));
}

AtomicFile::~AtomicFile() {
  // Removed first, closed after: while it has a name it is locked.
  if (!renamed_) unlink(temporary_path_.c_str());
  if (fd_ >= 0) close(fd_);
}

absl::Status AtomicFile::Fail(absl::string_view what, int error) {
  status_ = absl::ErrnoToStatus(
      error, absl::StrCat("cannot ", what, " ", temporary_path_, " (for ",
                          path_, ", ", size_bytes_, " bytes written so far)"));
  // A limit on a file's size is one on room, as a full disk is.
  if (error == EFBIG) {
    status_ = absl::ResourceExhaustedError(status_.message());
  }
  return status_;
}

absl::Status AtomicFile::Append(const void* data, int64_t size_bytes) {
  if (!status_.ok()) return status_;
  if (fd_ < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " is committed already"));
  }
  const char* at = static_cast<const char*>(data);
  while (size_bytes > 0) {
    const ssize_t n = write(fd_, at, static_cast<size_t>(size_bytes));
    if (n < 0) {
      if (errno == EINTR) continue;
      return Fail("write", errno);
    }
    at += n;
    size_bytes -= n;
    size_bytes_ += n;
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Reserve(int64_t size_bytes) {
  if (!status_.ok()) return status_;
  CASTOR_CHECK(fd_ >= 0);
  while (size_bytes > 0 &&
         fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, size_bytes) != 0) {
    const int error = errno;
    if (error == EINTR) continue;
    if (error != EOPNOTSUPP && error != ENOSYS && error != EINVAL) {
      return Fail(absl::StrCat("set aside ", size_bytes, " bytes for"), error);
    }
    const auto free_bytes = FreeDiskBytes(temporary_path_);
    if (free_bytes.ok() && *free_bytes < size_bytes - size_bytes_) {
      return Fail(absl::StrCat("find room for ", size_bytes, " bytes of"),
                  ENOSPC);
    }
    return absl::OkStatus();
  }
  reserved_bytes_ = size_bytes;
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (!status_.ok()) return status_;
  if (fd_ < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " is committed already"));
  }
  // Room that was reserved in vain is given back.
  if (reserved_bytes_ > size_bytes_ && ftruncate(fd_, size_bytes_) != 0) {
    return Fail("end", errno);
  }
  if (fsync(fd_) != 0) return Fail("force to disk", errno);
  status_ = TakeName(temporary_path_, path_);
  CASTOR_RETURN_IF_ERROR(status_);
  renamed_ = true;
  // Network file systems may report a failed write only here. An interrupted
  // close has closed.
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0 && errno != EINTR) return Fail("close", errno);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RemoveStaleTemporaries(
    const std::string& directory,
    absl::FunctionRef<bool(absl::string_view target)> wanted,
    absl::Status* problem) {
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ListDirectory(directory));
  std::vector<std::string> removed;
  for (const std::string& name : names) {
    absl::StatusOr<bool> gone = false;
    if (const absl::string_view target = AsideTarget(name);
        !target.empty() && wanted(target)) {
      gone = true;
      if (absl::Status restored = RestoreAside(directory, name);
          !restored.ok()) {
        gone = std::move(restored);
      }
    } else if (const absl::string_view target = TemporaryTarget(name);
               !target.empty() && wanted(target)) {
      gone = RemoveIfStale(absl::StrCat(directory, "/", name));
    }
    if (gone.ok() && *gone) removed.push_back(name);
    if (!gone.ok() && problem != nullptr) problem->Update(gone.status());
  }
  return removed;
}

}  // namespace castor
