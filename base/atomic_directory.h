// A directory that appears under its name whole, or not at all: several files
// as one (atomic_file.h has one).
//
// Files are put into a directory of a temporary name, which takes its name at
// once when all are durable. A process killed at any moment leaves what was
// under the name untouched, and at worst a temporary, which
// RemoveStaleTemporaries finds. It takes as alive a temporary in which a live
// process holds the lock of a file: the maker holds that of kLockName, and who
// writes an AtomicFile in it holds that file's.
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

  // The directory above `path` must exist. What is at `path` stays until Commit
  // replaces it, be it a file or a directory.
  static absl::StatusOr<std::unique_ptr<AtomicDirectory>> Create(
      std::string path);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  // The files in it must be durable. Returns when it is, under its name.
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
