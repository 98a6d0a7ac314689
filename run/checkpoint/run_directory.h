// A run's own directory of checkpoints, for whoever trains: castor train and
// programs whose operators are another framework's.
//
//   Claim       the directory is there, and no other run saves into it
//   RemoveStale, MakeWay
//               before the first save: what others left there goes or moves
//               aside
//   Prune       after each save
//
// One process of a run has it, rank 0's; all ranks save together (SaveTwice).
#ifndef CASTOR_RUN_CHECKPOINT_RUN_DIRECTORY_H_
#define CASTOR_RUN_CHECKPOINT_RUN_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/lock_wait.h"
#include "run/checkpoint/checkpoint_dir.h"
#include "run/checkpoint/checkpoint_lock.h"

namespace castor {

// Messages for the user, a line each.
struct DirectoryNotes {
  std::vector<std::string> changes;   // what moved aside or was removed
  std::vector<std::string> problems;  // what could not be removed, and stays
};

class RunDirectory {
 public:
  explicit RunDirectory(std::string directory);
  // A run that has saved nothing leaves no directory that it made.
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const CheckpointDir& files() const { return files_; }

  struct ClaimOptions {
    bool make = true;  // the directory, where it is missing
    bool lock = true;  // false: the user sees to it that no second run saves
    LockWait wait = {};
  };
  // Nobody else saves there until this object is gone. NotFound: there is no
  // directory, and none is to be made. Else as CheckpointDir::Make and
  // CheckpointLock::Take.
  absl::Status Claim(absl::string_view run_id, const ClaimOptions& options);
  // The run turned out to be the one that it goes on with.
  absl::Status SetRun(absl::string_view run_id);

  // After Claim. Removes what killed runs left half written.
  absl::Status RemoveStale(DirectoryNotes* notes);
  // After Claim. Moves checkpoints of later steps than `last_step` aside, and
  // keeps the newest `keep_aside` of what moved aside until now; 0: all of it.
  absl::Status MakeWay(int64_t last_step, int64_t keep_aside,
                       DirectoryNotes* notes);

  // Removes all but the newest `keep` and that of `spared_step` (see
  // CheckpointDir::Prune). "", or what a user is to know: an old checkpoint
  // stays. A note is returned once, however often the same happens.
  std::string Prune(int64_t keep, int64_t newest_step,
                    int64_t spared_step = -1);

 private:
  const CheckpointDir files_;
  std::unique_ptr<CheckpointLock> lock_;
  std::vector<std::string> made_;  // directories, the topmost first
  std::string pruning_told_;
};

// Calls `save`, and where the files could not be written (Aborted), a second
// time, since each writes new files: after a failed fsync another one of the
// same file says nothing. All ranks take the same way where all have the same
// status. `first_failure` receives why it took a second time, "" if it did not.
absl::Status SaveTwice(absl::FunctionRef<absl::Status()> save,
                       std::string* first_failure);

// "step 7 was saved at the second attempt; " and why.
std::string SecondAttemptNote(int64_t step, absl::string_view first_failure);

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_RUN_DIRECTORY_H_
