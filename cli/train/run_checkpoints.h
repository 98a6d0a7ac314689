// The checkpoints of one run of `castor train`: where it goes on from, and what
// it saves. All ranks call the same functions together; rank 0 alone changes
// what is in the directory beside the checkpoint that all of them write, and
// holds its lock (checkpoint_lock.h) for as long as the object lives.
#ifndef CASTOR_CLI_TRAIN_RUN_CHECKPOINTS_H_
#define CASTOR_CLI_TRAIN_RUN_CHECKPOINTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/run/session.h"
#include "device/comm/communicator.h"
#include "runtime/checkpoint/checkpoint_dir.h"
#include "runtime/checkpoint/checkpoint_lock.h"
#include "runtime/config/config.h"

namespace castor::cli {

class RunCheckpoints {
 public:
  // `resume` is --resume's value: "", "latest" or a checkpoint; `changed` is
  // --resume-changed. `session` is borrowed and stays alive.
  RunCheckpoints(std::string resume, bool changed, Session* session);
  // A run that never came to its first step leaves checkpoint.dir as it was.
  ~RunCheckpoints();
  RunCheckpoints(const RunCheckpoints&) = delete;
  RunCheckpoints& operator=(const RunCheckpoints&) = delete;

  // Locks checkpoint.dir, which is made where it is missing, and gives the
  // session's parameters their values: initial ones, or those of the checkpoint
  // that --resume names.
  absl::Status Restore();

  // Makes checkpoint.dir ready for this run, after Restore and before the first
  // step. Later steps' checkpoints that are another run's move aside.
  // ResourceExhausted: the disk has no room for what the run will save.
  absl::Status Prepare();

  // A step from the session's latest values had a finite loss, which is known
  // only then: finite values alone may give none. What is saved of them is
  // proven.
  void Prove();

  // Saves the session's step, at a second attempt if need be, and removes what
  // is older than checkpoint.keep and than the newest proven one; nothing
  // without checkpoint.dir, when that step is saved already, or while the
  // newest is not proven. OK also if the files could not be written, as
  // checkpoint.on_error says: that is told, and the run goes on.
  absl::Status Save();
  // The same at the run's end: what is not saved now is lost. Aborted: the
  // files could not be written.
  absl::Status SaveLast();

  // The newest checkpoint in the directory that is this run's, or "".
  std::string newest() const;

  // `status`, and where it is a run's that diverged, the newest proven
  // checkpoint, from which that run can go on.
  absl::Status WithWayBack(const absl::Status& status) const;

 private:
  absl::StatusOr<std::string> Claim();
  absl::Status ClaimDirectory(const std::string& run_id);
  absl::StatusOr<std::string> FindLatest();
  absl::Status Resume();
  absl::Status PrepareDirectory();
  int64_t SavesToCome() const;
  absl::Status TrySave(int64_t step);
  void Prune();

  const std::string resume_;
  const bool changed_;
  Session& session_;
  const Config& config_;
  const CheckpointDir directory_;
  Communicator* const ranks_;  // null: one rank
  const bool first_;           // rank 0
  std::string run_id_;
  std::unique_ptr<CheckpointLock> lock_;  // rank 0's
  std::vector<std::string> made_;  // directories, which go if nothing comes
  int64_t saved_step_ = -1;        // the newest
  int64_t proven_step_ = -1;       // the newest proven one
  int64_t unproven_ = 0;           // how many are newer than that
  int failed_in_a_row_ = 0;
  std::string pruning_told_;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_RUN_CHECKPOINTS_H_
