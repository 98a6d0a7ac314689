// A file that appears under its name whole, or not at all.
//
// The bytes go to a temporary name in the same directory, are forced to the
// disk, and only then take the name; the directory is forced to the disk last.
// A process killed at any moment leaves the former file under the name
// untouched, and at worst a temporary, which RemoveStaleTemporaries finds.
//
// A live writer holds an advisory lock (flock) on its temporary; the kernel
// drops it with the process. That is how a stale one is told from one that
// another process is still writing.
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
  // The directory of `path` must exist. What is at `path` stays until Commit
  // replaces it, be it a file or a directory. `mode`: what others may do with
  // it, less what the process's umask forbids.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(
      std::string path, unsigned mode = 0666);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Unbuffered: give it large pieces. The first failure (a full disk is
  // ResourceExhausted) is kept and given again by every later call.
  absl::Status Append(const void* data, int64_t size_bytes);

  // Sets room on the disk aside for `size_bytes` in all, so that what does not
  // fit is refused before it is written. Where the file system cannot do that,
  // it is only asked what it has. ResourceExhausted: too little.
  absl::Status Reserve(int64_t size_bytes);

  // fsync, rename, fsync of the directory. Returns when all of it is durable.
  // After a failure nothing is known of what is on the disk (a second fsync
  // would succeed all the same): begin again with a new AtomicFile.
  absl::Status Commit();

  int64_t size_bytes() const { return size_bytes_; }
  // The failure that is kept, or OK.
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
// `wanted` accepts, and ends what TakeName was killed in; returns the names
// that are gone. What is neither a file nor a directory (a link, a pipe) is not
// a writer's, and stays. An entry that cannot be looked at or removed keeps
// none of the others from it; the first such failure goes to *problem (may be
// null).
absl::StatusOr<std::vector<std::string>> RemoveStaleTemporaries(
    const std::string& directory,
    absl::FunctionRef<bool(absl::string_view target)> wanted,
    absl::Status* problem = nullptr);

}  // namespace castor

#endif  // CASTOR_BASE_ATOMIC_FILE_H_
