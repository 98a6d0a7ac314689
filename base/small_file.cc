#include "base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace castor {

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

bool HasFile(const std::string& directory, absl::string_view name) {
  struct stat found = {};
  return stat(absl::StrCat(directory, "/", name).c_str(), &found) == 0 &&
         S_ISREG(found.st_mode);
}

}  // namespace castor
