// What a file system has room for.
#ifndef CASTOR_BASE_DISK_ROOM_H_
#define CASTOR_BASE_DISK_ROOM_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace castor {

// Bytes that this process may still write to the file system of `path`, which
// exists. Quotas are not known here.
absl::StatusOr<int64_t> FreeDiskBytes(const std::string& path);

// What removing `path`, a file or a directory with all that is in it, would
// give back: the blocks that it has on the disk. What cannot be looked at
// counts as 0.
int64_t BytesOnDisk(const std::string& path);

}  // namespace castor

#endif  // CASTOR_BASE_DISK_ROOM_H_
