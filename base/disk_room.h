// Room on a file system.
#ifndef CASTOR_BASE_DISK_ROOM_H_
#define CASTOR_BASE_DISK_ROOM_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace castor {

// Returns the bytes that this process may still write to the file system of
// `path`, which exists. Quotas are not considered.
absl::StatusOr<int64_t> FreeDiskBytes(const std::string& path);

// Returns the bytes that removing `path`, a file or a directory with its
// content, would free: its blocks on the disk. Entries that cannot be read
// count as 0.
int64_t BytesOnDisk(const std::string& path);

}  // namespace castor

#endif  // CASTOR_BASE_DISK_ROOM_H_
