#include "base/atomic_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/directory_entry.h"
#include "base/lock_file.h"
#include "base/status_macros.h"

namespace castor {

AtomicDirectory::AtomicDirectory(std::string path, std::string temporary_path,
                                 int fd)
    : path_(std::move(path)),
      temporary_path_(std::move(temporary_path)),
      fd_(fd) {}

absl::StatusOr<std::unique_ptr<AtomicDirectory>> AtomicDirectory::Create(
    std::string path) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::string temporary = TemporaryName(path, attempt);
    if (mkdir(temporary.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      return absl::ErrnoToStatus(
          errno,
          absl::StrCat("cannot create a temporary directory beside ", path));
    }
    const std::string lock = absl::StrCat(temporary, "/", kLockName);
    const int fd =
        open(lock.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
      // Another process took the directory for stale, and removed it, before it
      // had the lock.
      if (errno == ENOENT) continue;
      const absl::Status status =
          absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", lock));
      rmdir(temporary.c_str());
      return status;
    }
    // Another process may have taken the directory for stale before the lock
    // was held, as in AtomicFile::Create.
    const LockResult locked = TryLock(fd);
    if (locked == LockResult::kHeld || !IsNamed(fd, lock)) {
      close(fd);
      continue;
    }
    return std::unique_ptr<AtomicDirectory>(
        new AtomicDirectory(std::move(path), std::move(temporary), fd));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot create a temporary directory for ", path,
                   ": 1000 names are taken; remove ", path, ".tmp-*"));
}

AtomicDirectory::~AtomicDirectory() {
  // Another process that still puts files in may keep it from going; then it is
  // stale.
  if (!committed_) RemoveEntry(temporary_path_).IgnoreError();
  close(fd_);
}

absl::Status AtomicDirectory::Commit() {
  if (committed_) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " is committed already"));
  }
  CASTOR_RETURN_IF_ERROR(SyncDirectory(temporary_path_));
  CASTOR_RETURN_IF_ERROR(TakeName(temporary_path_, path_));
  committed_ = true;
  // Held until here; left behind by a process that is killed now, it is no
  // harm.
  unlink(absl::StrCat(path_, "/", kLockName).c_str());
  return absl::OkStatus();
}

}  // namespace castor
