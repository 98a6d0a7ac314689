#include "tracer/append_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/directory_entry.h"
#include "base/status_macros.h"

namespace castor {
namespace {

constexpr int kAttempts = 1000;
constexpr char kCut[] = "was cut or written to by somebody else";

// The path to which links lead: the file is replaced, not the link.
std::string Target(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

bool IsFile(const std::string& path, const struct stat& file) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && info.st_dev == file.st_dev &&
         info.st_ino == file.st_ino;
}

// `path` moves to the first free PATH.replaced-N. Returns an error's number.
int MoveAside(const std::string& path, const std::string& target) {
  for (int i = 1; i <= kAttempts; ++i) {
    const std::string name = absl::StrCat(target, ".replaced-", i);
    struct stat info;
    if (lstat(name.c_str(), &info) == 0) continue;
    return rename(path.c_str(), name.c_str()) == 0 ? 0 : errno;
  }
  return EEXIST;
}

// Renames `temporary` to `path`, and moves the file that a live process writes
// there aside. Its writer finds it then (Place), which it would not by a second
// link.
int TakeNameFromLive(const std::string& temporary, const std::string& path) {
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(),
                RENAME_EXCHANGE) == 0) {
    // Should this fail, the name that it has will do.
    static_cast<void>(MoveAside(temporary, path));
    return 0;
  }
  // Network file systems, and old ones, cannot exchange two names.
  const int error = MoveAside(path, path);
  if (error != 0) return error;
  return rename(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
}

}  // namespace

bool IsBeingAppended(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

absl::StatusOr<std::unique_ptr<AppendFile>> AppendFile::Open(
    const std::string& path) {
  // A shared mapping wants reading too.
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0 && errno == EACCES) fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const int error = errno;
  std::unique_ptr<AppendFile> file(new AppendFile(path, fd, /*regular=*/false));
  if (fd < 0) return file->Failure("cannot be opened", error);
  return file;
}

absl::StatusOr<std::unique_ptr<AppendFile>> AppendFile::Create(
    const std::string& path) {
  struct stat before;
  const bool replaces = stat(path.c_str(), &before) == 0;
  if (replaces && !S_ISREG(before.st_mode)) return Open(path);
  const std::string target = Target(path);
  std::string temporary;
  int fd = -1, error = EEXIST;
  if (replaces && access(target.c_str(), W_OK) != 0) {
    error = errno;
  } else {
    for (int i = 0; fd < 0 && error == EEXIST && i < kAttempts; ++i) {
      temporary = TemporaryName(target, i);
      fd = open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      error = errno;
    }
  }
  std::unique_ptr<AppendFile> file(new AppendFile(path, fd, /*regular=*/true));
  if (fd < 0) return file->Failure("cannot be created", error);
  // It may be seen by those who could see the one before. Neither this nor the
  // lock is to be had everywhere.
  if (replaces) static_cast<void>(fchmod(fd, before.st_mode & 0777));
  static_cast<void>(flock(fd, LOCK_EX | LOCK_NB));
  absl::Status status = file->MapNext();
  if (status.ok()) {
    if (replaces && IsBeingAppended(target)) {
      error = TakeNameFromLive(temporary, target);
    } else {
      error = rename(temporary.c_str(), target.c_str()) == 0 ? 0 : errno;
    }
    if (error != 0) status = file->Failure("cannot be created", error);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return file;
}

AppendFile::~AppendFile() {
  if (fd_ < 0) return;
  window_.Unmap();
  CutTo(size_);  // if that fails, zeros are left, which readers drop
  close(fd_);
}

absl::Status AppendFile::Failure(absl::string_view what, int error) const {
  return absl::UnavailableError(
      absl::StrCat("file \"", path_, "\" ", what, error == 0 ? "" : ": ",
                   error == 0 ? "" : std::strerror(error)));
}

absl::Status AppendFile::Check() const {
  if (!regular_) return absl::OkStatus();
  struct stat info;
  if (fstat(fd_, &info) != 0) return Failure("cannot be looked at", errno);
  if (info.st_nlink == 0) {
    return Failure("was removed, or replaced by another", 0);
  }
  if (info.st_size != end_) return Failure(kCut, 0);
  return absl::OkStatus();
}

bool AppendFile::LostItsText() const {
  if (size_ == 0) return false;
  char last;
  return pread(fd_, &last, 1, static_cast<off_t>(size_ - 1)) != 1 ||
         last == '\0';
}

absl::StatusOr<std::string> AppendFile::Place() const {
  if (!regular_) return path_;
  struct stat info;
  if (fstat(fd_, &info) != 0) return Failure("cannot be looked at", errno);
  if (IsFile(path_, info)) return path_;
  std::error_code error;
  const std::string name =
      std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", fd_), error)
          .string();
  if (!error && IsFile(name, info)) return name;
  return Failure("was removed, or replaced by another", 0);
}

// A file that others have changed stays as it is.
void AppendFile::CutTo(int64_t size) {
  struct stat info;
  if (!regular_ || end_ == size || fstat(fd_, &info) != 0 ||
      info.st_size != end_ || ftruncate(fd_, size) != 0) {
    return;
  }
  end_ = size;
}

absl::Status AppendFile::MapNext() {
  window_.Unmap();
  CASTOR_RETURN_IF_ERROR(Check());
  // A full disk must be an error here, not a fault at the copy.
  int error;
  do {
    error = posix_fallocate(fd_, size_, MappedWindow::kBytes);
  } while (error == EINTR);
  if (error == 0) {
    end_ = size_ + MappedWindow::kBytes;
    if (LostItsText()) return Failure(kCut, 0);
    error = window_.Map(fd_, size_);
  }
  if (error != 0) {
    // Gives back the part that was allocated.
    if (ftruncate(fd_, size_) == 0) end_ = size_;
    const bool no_room = error == ENOSPC || error == EDQUOT || error == EFBIG;
    if (no_room || size_ > 0) return Failure("cannot grow", error);
    maps_ = false;
  }
  window_begin_ = size_;
  return absl::OkStatus();
}

absl::Status AppendFile::WriteOut(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd_, text.data(), text.size());
    if (wrote < 0) {
      if (errno == EINTR) continue;
      return Failure("cannot be written", errno);
    }
    size_ += wrote;
    end_ = size_;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

absl::Status AppendFile::Copy(absl::string_view text) {
  while (!text.empty()) {
    if (size_ == window_begin_ + MappedWindow::kBytes) {
      CASTOR_RETURN_IF_ERROR(MapNext());
    }
    const int64_t at = size_ - window_begin_;
    const absl::string_view piece = text.substr(0, MappedWindow::kBytes - at);
    if (!window_.Copy(at, piece)) {
      CASTOR_RETURN_IF_ERROR(Check());
      return Failure("cannot be written", EIO);
    }
    size_ += static_cast<int64_t>(piece.size());
    text.remove_prefix(piece.size());
  }
  return absl::OkStatus();
}

absl::Status AppendFile::Append(absl::string_view line) {
  const int64_t begin = size_;
  const absl::Status status = maps_ ? Copy(line) : WriteOut(line);
  if (!status.ok()) {
    CutTo(begin);
    size_ = std::min(begin, size_);
  }
  return status;
}

}  // namespace castor
