// A file that appears under its name as a whole, or not at all.
//
// The bytes go to a temporary name in the same directory, are forced to the
// disk, and only then take the name; the directory is forced to the disk last.
// A process killed at any moment leaves the former file under the name
// untouched, and at worst a temporary, which RemoveStaleTemporaries finds.
//
// A live writer holds an advisory lock (flock) on its temporary; the kernel
// drops it with the process. A stale temporary has no lock, so it differs from
// one that another process is still writing.
#ifndef CASTOR_BASE_ATOMIC_FILE_H_
#define CASTOR_BASE_ATOMIC_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/directory_entry.h"

namespace castor {

// Not thread-safe. Destroyed before Commit succeeded, it removes its temporary.
class AtomicFile {
 public:
  // Makes the temporary. The directory of `path` must exist. A file or
  // directory at `path` stays until Commit replaces it. `mode` has the
  // permissions, of which the process's umask takes some away.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(
      std::string path, unsigned mode = 0666);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends without a buffer, so pieces should be large. Keeps the first
  // failure (ResourceExhausted for a full disk), which every later call
  // returns.
  absl::Status Append(const void* data, int64_t size_bytes);

  // Reserves room on the disk for `size_bytes` in all, so that a file that does
  // not fit is refused before it is written. If the file system cannot reserve,
  // only checks its free bytes. ResourceExhausted: too little room.
  absl::Status Reserve(int64_t size_bytes);

  // Calls fsync, rename, and fsync of the directory. Returns when the file is
  // durable. After a failure the content of the disk is unknown (a second fsync
  // would succeed all the same): start again with a new AtomicFile.
  absl::Status Commit();

  int64_t size_bytes() const { return size_bytes_; }
  // The first failure, or OK.
  const absl::Status& status() const { return status_; }
  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_path_; }

 private:
  AtomicFile(std::string path, std::string temporary_path, int fd);
  absl::Status Fail(absl::string_view what, int error);

  const std::string path_;
  const std::string temporary_path_;
  int fd_;  // -1 once closed
  bool renamed_ = false;
  int64_t size_bytes_ = 0;
  int64_t reserved_bytes_ = 0;
  absl::Status status_;
};

// Removes the temporaries in `directory`, files and directories
// (atomic_directory.h), that no live process writes and whose final name
// `wanted` accepts. Also completes a TakeName that was killed. Returns the
// removed names. Entries that are neither file nor directory (a link, a pipe)
// stay, since no writer makes them. An entry that cannot be read or removed
// does not stop the removal of others; the first such failure goes to *problem
// (may be null).
absl::StatusOr<std::vector<std::string>> RemoveStaleTemporaries(
    const std::string& directory,
    absl::FunctionRef<bool(absl::string_view target)> wanted,
    absl::Status* problem = nullptr);

}  // namespace castor

#endif  // CASTOR_BASE_ATOMIC_FILE_H_
