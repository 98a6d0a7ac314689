// A directory that appears under its name as a whole, or not at all;
// atomic_file.h does the same for a single file.
//
// Files are put into a directory of a temporary name, which is renamed at once
// when all files are durable. A process killed at any moment leaves the former
// entry of that name untouched, and at worst a temporary, which
// RemoveStaleTemporaries finds. A temporary is alive if a live process holds
// the lock of a file in it: the maker holds that of kLockName, and the writer
// of an AtomicFile in it holds that file's.
#ifndef CASTOR_BASE_ATOMIC_DIRECTORY_H_
#define CASTOR_BASE_ATOMIC_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace castor {

// Not thread-safe. Destroyed before Commit succeeded, it removes its temporary
// with all that is in it.
class AtomicDirectory {
 public:
  static constexpr char kLockName[] = "lock";

  // Makes the temporary. The directory above `path` must exist. A file or
  // directory at `path` stays until Commit replaces it.
  static absl::StatusOr<std::unique_ptr<AtomicDirectory>> Create(
      std::string path);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  // Renames the directory to its name. Its files must be durable. Returns when
  // the directory is durable, too.
  absl::Status Commit();

  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_path_; }

 private:
  AtomicDirectory(std::string path, std::string temporary_path, int fd);

  const std::string path_;
  const std::string temporary_path_;
  int fd_;  // of the lock
  bool committed_ = false;
};

}  // namespace castor

#endif  // CASTOR_BASE_ATOMIC_DIRECTORY_H_
