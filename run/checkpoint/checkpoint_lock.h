// A run's right to a checkpoint directory: one run at a time saves into it.
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_LOCK_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/lock_file.h"
#include "base/lock_wait.h"

namespace castor {

// Held for the whole run by one process of it, whichever way that ends. The
// file says in JSON who it is: {"host": ..., "process": ..., "run": ...}.
class CheckpointLock {
 public:
  static constexpr char kName[] = "castor.lock";

  // Waits as `wait` says, whose `what` is not used. FailedPrecondition: another
  // run has it, and which one, or the file system has no locks. NotFound: there
  // is no such directory. InvalidArgument: what has the lock file's name is no
  // file.
  static absl::StatusOr<std::unique_ptr<CheckpointLock>> Take(
      const std::string& directory, absl::string_view run_id,
      LockWait wait = {});

  // Returns true if, as this machine sees it, the run `run_id` has the
  // directory.
  static bool IsOf(const std::string& directory, absl::string_view run_id);

  // The run turned out to be the one that it goes on with.
  absl::Status SetRun(absl::string_view run_id);

 private:
  explicit CheckpointLock(std::unique_ptr<LockFile> file);

  const std::unique_ptr<LockFile> file_;
};

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_LOCK_H_
