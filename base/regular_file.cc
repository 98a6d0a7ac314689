#include "base/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/printable.h"

namespace castor {
namespace {

absl::string_view KindName(mode_t mode) {
  if (S_ISDIR(mode)) return "is a directory, not a file";
  if (S_ISFIFO(mode)) return "is a pipe, not a file";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "is a device, not a file";
  if (S_ISSOCK(mode)) return "is a socket, not a file";
  return "is no regular file";
}

absl::Status CannotOpen(const std::string& path, int error) {
  struct stat entry;
  if (error == ENOENT && lstat(path.c_str(), &entry) == 0 &&
      S_ISLNK(entry.st_mode)) {
    char target[4096];
    const ssize_t n = readlink(path.c_str(), target, sizeof(target));
    return absl::InvalidArgumentError(absl::StrCat(
        "is a link to \"", Printable(absl::string_view(target, n < 0 ? 0 : n)),
        "\", which is not there"));
  }
  // A socket cannot be opened.
  if (error == ENXIO && lstat(path.c_str(), &entry) == 0) {
    return absl::InvalidArgumentError(KindName(entry.st_mode));
  }
  const std::string why =
      absl::StrCat("cannot be opened: ", std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(why)
                                             : absl::InvalidArgumentError(why);
}

}  // namespace

absl::StatusOr<RegularFile> OpenRegularFile(const std::string& path) {
  RegularFile file;
  file.fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file.fd < 0) return CannotOpen(path, errno);
  if (fstat(file.fd, &file.info) == 0 && S_ISREG(file.info.st_mode)) {
    return file;
  }
  close(file.fd);
  return absl::InvalidArgumentError(KindName(file.info.st_mode));
}

absl::Status CheckOwnFile(const struct stat& info) {
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("belongs to another user (of number ", info.st_uid, ")"));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::InvalidArgumentError("can be written to by other users");
  }
  return absl::OkStatus();
}

}  // namespace castor
