#include "base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace castor {
namespace {

std::string LinkTarget(const std::string& path) {
  char target[4096];
  const ssize_t size = readlink(path.c_str(), target, sizeof(target));
  return size < 0 ? "another name" : std::string(target, size);
}

absl::Status CannotLookAt(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot look at ", path, ": ", std::strerror(errno)));
}

absl::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                          int64_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  std::string text;
  char buffer[1 << 16];
  absl::Status status;
  while (status.ok()) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      status = absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    } else if (n == 0) {
      break;
    } else if (static_cast<int64_t>(text.size()) + n > max_bytes) {
      status = absl::InvalidArgumentError(
          absl::StrCat(path, ": more than ", max_bytes, " bytes"));
    } else {
      text.append(buffer, n);
    }
  }
  close(fd);
  if (!status.ok()) return status;
  return text;
}

absl::StatusOr<bool> FindFile(const std::string& directory,
                              absl::string_view name) {
  const std::string path = absl::StrCat(directory, "/", name);
  struct stat entry = {};
  if (lstat(path.c_str(), &entry) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return CannotLookAt(path);
  }
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) {
    if (S_ISLNK(entry.st_mode) && (errno == ENOENT || errno == ENOTDIR)) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is a link to ", LinkTarget(path),
                       ", which is not there: restore that file, or remove "
                       "the link"));
    }
    return CannotLookAt(path);
  }
  if (!S_ISREG(found.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is ", KindOf(found.st_mode), ", not a file"));
  }
  if (faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no permission to read ", path));
  }
  return true;
}

}  // namespace castor
