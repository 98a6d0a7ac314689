// The checkpoints of one run of `castor train`: the one from which it goes on,
// and those that it saves. Rank 0 alone changes the directory's other contents,
// while all ranks write the checkpoint, and holds its lock (checkpoint_lock.h)
// for as long as the object lives.
//
//   Claim          before the run costs anything: rank 0 has the directory
//   CheckRoom      when the model is known, and no data are read yet
//   Restore        with a session, whose parameters get their values
//   Prepare        before the first step: what is another run's moves aside
//   Prove, Save    during the run
//   SaveLast       at its end
//
// All ranks call Restore and what follows it together.
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
#include "run/checkpoint/checkpoint_dir.h"
#include "run/checkpoint/run_directory.h"
#include "run/config/config.h"

namespace castor::cli {

class RunCheckpoints {
 public:
  // `resume` is --resume's value: "", "latest", "auto" or a checkpoint;
  // `changed` is --resume-changed. `config_path` is the configuration's file,
  // `config` its contents, which are borrowed and stay alive; `first` says
  // whether this is rank 0.
  RunCheckpoints(std::string resume, bool changed, std::string config_path,
                 const Config* config, bool first);
  RunCheckpoints(const RunCheckpoints&) = delete;
  RunCheckpoints& operator=(const RunCheckpoints&) = delete;

  // Locks checkpoint.dir, which is made where it is missing, and checks that
  // there is the checkpoint that --resume names. Does nothing on other ranks
  // than 0.
  absl::Status Claim();
  // Returns true if there are checkpoints to begin from, as far as their names
  // tell.
  bool Resumes() const;
  // Checks that the disk has room. ResourceExhausted: it has none for the
  // checkpoints that a run of such parameters will save. Does nothing on other
  // ranks than 0.
  absl::Status CheckRoom(const Parameters& parameters) const;

  // Gives the session's parameters their values: initial ones, or those of the
  // checkpoint that --resume names. `session` stays alive. After Claim.
  absl::Status Restore(Session* session);

  // Makes checkpoint.dir ready for this run, after Restore and before the first
  // step. Checkpoints of later steps, which are another run's, move aside; of
  // the directories that moved aside before, only the newest
  // checkpoint.keep_aside stay. ResourceExhausted: the disk has no room for the
  // checkpoints that the run will save.
  absl::Status Prepare();

  // A step from the session's latest values had a finite loss, which is known
  // only then: finite values alone may give none. A checkpoint of these values
  // is proven from now on.
  void Prove();

  // Saves the session's step, at a second attempt if need be, and removes
  // checkpoints that are older than the newest checkpoint.keep and than the
  // newest proven one, except the best of checkpoint.load_best. Does nothing
  // without checkpoint.dir, when that step is saved already, or while the
  // newest is not proven. Returns OK also if the files could not be written, as
  // checkpoint.on_error says: the user is told, and the run goes on.
  absl::Status Save();
  // Does the same for a step whose evaluation is the best so far, whether or
  // not the newest is proven.
  absl::Status SaveBest() { return SaveOrGoOn(); }
  // Saves the session's step in the place of its checkpoint, which knows less.
  absl::Status SaveAgain() {
    saved_step_ = -1;
    return SaveOrGoOn();
  }
  // Does the same at the run's end: a step that is not saved now is lost.
  // Aborted: the files could not be written.
  absl::Status SaveLast();

  // The newest checkpoint in the directory that is this run's, or "".
  std::string newest() const;
  // The best one, where checkpoint.load_best has it kept and it could be saved,
  // or "".
  std::string best() const;

  // Returns `status`; where it is of a run that diverged, with the newest
  // proven checkpoint, from which that run can go on.
  absl::Status WithWayBack(const absl::Status& status) const;

  // Returns the line that says what this run saves, and where.
  std::string Describe() const;

 private:
  // Where the run begins.
  enum class Begin {
    kInitial,  // with initial values
    kNewest,   // where the newest checkpoint of the directory ends
    kNamed,    // where the checkpoint ends that --resume names
  };
  bool saves() const { return !config_.checkpoint.dir.empty(); }
  bool wants_newest() const { return resume_ == "latest" || resume_ == "auto"; }
  absl::Status ClaimDirectory();
  absl::Status FindResumed() const;
  absl::Status CheckShared() const;
  absl::StatusOr<std::string> FindLatest() const;
  absl::StatusOr<std::string> FindNewest();
  absl::Status Resume(const std::string& path);
  absl::Status PrepareDirectory();
  // Returns the last step whose checkpoint stays; those of later steps move
  // aside.
  static int64_t LastStepThatStays(Begin begin, int64_t step);
  absl::Status SaveOrGoOn();
  absl::Status TrySave(int64_t step);
  void Prune();

  const std::string resume_;
  const bool changed_;
  const std::string config_path_;
  const Config& config_;
  RunDirectory run_directory_;
  const CheckpointDir& directory_;
  const bool first_;               // rank 0
  Session* session_ = nullptr;     // from Restore on
  Communicator* ranks_ = nullptr;  // null: one rank
  Begin begin_ = Begin::kInitial;
  std::string run_id_;
  int64_t saved_step_ = -1;   // the newest
  int64_t proven_step_ = -1;  // the newest proven one
  int64_t unproven_ = 0;      // how many are newer than that
  int failed_in_a_row_ = 0;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_RUN_CHECKPOINTS_H_
