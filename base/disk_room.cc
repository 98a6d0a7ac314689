#include "base/disk_room.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/directory_entry.h"

namespace castor {

absl::StatusOr<int64_t> FreeDiskBytes(const std::string& path) {
  struct statvfs info;
  while (statvfs(path.c_str(), &info) != 0) {
    if (errno == EINTR) continue;
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot tell what is free on the disk of ", path));
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(info.f_bavail, info.f_frsize, &bytes)) {
    return std::numeric_limits<int64_t>::max();
  }
  return bytes;
}

int64_t BytesOnDisk(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return 0;
  constexpr int64_t kBlockBytes = 512;  // of st_blocks, everywhere
  // A file of several names stays when one of them goes.
  if (S_ISREG(info.st_mode) && info.st_nlink > 1) return 0;
  int64_t bytes = info.st_blocks * kBlockBytes;
  if (!S_ISDIR(info.st_mode)) return bytes;
  const auto names = ListDirectory(path);
  if (!names.ok()) return bytes;
  for (const std::string& name : *names) {
    bytes += BytesOnDisk(absl::StrCat(path, "/", name));
  }
  return bytes;
}

}  // namespace castor
