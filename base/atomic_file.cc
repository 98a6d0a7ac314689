#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor {
namespace {

// Whether a live process holds the lock of a file; true also where that cannot
// be known. `error` is that of opening the file.
bool IsHeld(const std::string& path, int* error) {
  *error = 0;
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    *error = errno;
    return true;
  }
  const bool held = flock(fd, LOCK_EX | LOCK_NB) != 0;
  close(fd);
  return held;
}

// Whether nobody writes the temporary at `path`, a file or a directory.
absl::StatusOr<bool> IsStale(const std::string& path) {
  int error = 0;
  bool held = IsHeld(path, &error);
  if (error == EISDIR) {
    const absl::StatusOr<std::vector<std::string>> names = ListDirectory(path);
    if (absl::IsNotFound(names.status())) return false;
    CASTOR_RETURN_IF_ERROR(names.status());
    held = std::any_of(names->begin(), names->end(), [&](const auto& name) {
      return IsHeld(absl::StrCat(path, "/", name), &error) &&
             error != EISDIR && error != ENOENT;
    });
  } else if (error == ENOENT) {
    return false;  // its writer finished meanwhile
  } else if (error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot open ", path));
  }
  return !held;
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string temporary_path, int fd)
    : path_(std::move(path)),
      temporary_path_(std::move(temporary_path)),
      fd_(fd) {}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(
    std::string path) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::string temporary = TemporaryName(path, attempt);
    const int fd = open(temporary.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
      // Left by a process of the same number, or a second writer in this one.
      if (errno == EEXIST) continue;
      return absl::ErrnoToStatus(
          errno, absl::StrCat("cannot create a temporary file beside ", path));
    }
    // Without the lock (some network file systems) the file is written all the
    // same: only the clean-up after another process is less careful.
    flock(fd, LOCK_EX | LOCK_NB);
    return std::unique_ptr<AtomicFile>(
        new AtomicFile(std::move(path), std::move(temporary), fd));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "cannot create a temporary for ", path,
      ": 1000 names are taken; remove ", path, ".tmp-*"));
}

AtomicFile::~AtomicFile() {
  // Removed first, closed after: while it has a name it is locked.
  if (!renamed_) unlink(temporary_path_.c_str());
  if (fd_ >= 0) close(fd_);
}

absl::Status AtomicFile::Fail(const char* what, int error) {
  status_ = absl::ErrnoToStatus(
      error, absl::StrCat("cannot ", what, " ", temporary_path_, " (for ",
                          path_, ", ", size_bytes_, " bytes written so far)"));
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

absl::Status AtomicFile::Commit() {
  if (!status_.ok()) return status_;
  if (fd_ < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " is committed already"));
  }
  if (fsync(fd_) != 0) return Fail("force to disk", errno);
  status_ = TakeName(temporary_path_, path_);
  CASTOR_RETURN_IF_ERROR(status_);
  renamed_ = true;
  // Network file systems may report a failed write only here.
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0) return Fail("close", errno);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RemoveStaleTemporaries(
    const std::string& directory,
    absl::FunctionRef<bool(absl::string_view target)> wanted) {
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ListDirectory(directory));
  std::vector<std::string> removed;
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(directory, "/", name);
    if (const absl::string_view target = AsideTarget(name);
        !target.empty() && wanted(target)) {
      CASTOR_RETURN_IF_ERROR(RestoreAside(directory, name));
      removed.push_back(name);
      continue;
    }
    const absl::string_view target = TemporaryTarget(name);
    if (target.empty() || !wanted(target)) continue;
    CASTOR_ASSIGN_OR_RETURN(const bool stale, IsStale(path));
    if (!stale) continue;
    CASTOR_RETURN_IF_ERROR(RemoveEntry(path));
    removed.push_back(name);
  }
  return removed;
}

}  // namespace castor
