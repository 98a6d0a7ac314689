#include "base/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor {
namespace {

constexpr absl::string_view kMark = ".tmp-";

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool AllDigits(absl::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string temporary_path, int fd)
    : path_(std::move(path)),
      temporary_path_(std::move(temporary_path)),
      fd_(fd) {}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(
    std::string path) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::string temporary =
        absl::StrCat(path, kMark, getpid(), "-", attempt);
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
      ": 1000 names are taken; remove the files ", path, kMark, "*"));
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
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    return Fail("rename", errno);
  }
  renamed_ = true;
  // Network file systems may report a failed write only here.
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0) return Fail("close", errno);
  status_ = SyncDirectory(DirectoryOf(path_));
  return status_;
}

absl::string_view TemporaryTarget(absl::string_view name) {
  const size_t mark = name.rfind(kMark);
  if (mark == absl::string_view::npos || mark == 0) return "";
  const absl::string_view tail = name.substr(mark + kMark.size());
  const size_t dash = tail.find('-');
  if (dash == absl::string_view::npos) return "";
  if (!AllDigits(tail.substr(0, dash)) || !AllDigits(tail.substr(dash + 1))) {
    return "";
  }
  return name.substr(0, mark);
}

absl::StatusOr<std::vector<std::string>> RemoveStaleTemporaries(
    const std::string& directory,
    absl::FunctionRef<bool(absl::string_view target)> wanted) {
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ListDirectory(directory));
  std::vector<std::string> removed;
  for (const std::string& name : names) {
    const absl::string_view target = TemporaryTarget(name);
    if (target.empty() || !wanted(target)) continue;
    const std::string path = absl::StrCat(directory, "/", name);
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
      if (errno == ENOENT) continue;  // its writer finished meanwhile
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
    }
    bool is_removed = false;
    int error = 0;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      is_removed = unlink(path.c_str()) == 0;
      // Gone when its writer took the lock away by finishing just now.
      if (!is_removed && errno != ENOENT) error = errno;
    }
    close(fd);
    if (error != 0) {
      return absl::ErrnoToStatus(error, absl::StrCat("cannot remove ", path));
    }
    if (is_removed) removed.push_back(name);
  }
  return removed;
}

absl::StatusOr<std::vector<std::string>> ListDirectory(
    const std::string& directory) {
  DIR* stream = opendir(directory.c_str());
  if (stream == nullptr) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot list the directory ", directory));
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(stream)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  closedir(stream);
  if (error != 0) {
    return absl::ErrnoToStatus(
        error, absl::StrCat("cannot list the directory ", directory));
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status SyncDirectory(const std::string& directory) {
  const int fd =
      open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot open the directory ", directory));
  }
  const bool ok = fsync(fd) == 0;
  const int error = errno;
  close(fd);
  // EINVAL: a file system whose directories cannot be synced on their own.
  if (!ok && error != EINVAL) {
    return absl::ErrnoToStatus(
        error, absl::StrCat("cannot force to disk the directory ", directory));
  }
  return absl::OkStatus();
}

}  // namespace castor
