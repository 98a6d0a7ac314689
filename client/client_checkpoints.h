// The checkpoints of a client's run: the same files and directories as those of
// castor train (run/checkpoint/). The client's own data, such as the states of
// its generators of random numbers, is a text that only the client reads.
//
// They move between castor train and a client whose parameters have the same
// names and numbers of elements, and between numbers of ranks.
//
// On several ranks all call the same functions together, about the same files,
// which all of them see; a call that fails on one fails on all. Rank 0 alone
// holds the directory's lock, and its text is kept.
#ifndef CASTOR_CLIENT_CLIENT_CHECKPOINTS_H_
#define CASTOR_CLIENT_CLIENT_CHECKPOINTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client_run.h"
#include "device/comm/communicator.h"
#include "run/checkpoint/checkpoint.h"
#include "run/checkpoint/run_directory.h"
#include "run/config/config.h"

namespace castor {

class ClientCheckpoints {
 public:
  // `config` is the run's configuration. `run` outlives this object.
  ClientCheckpoints(ClientRun* run, Config config);
  ClientCheckpoints(const ClientCheckpoints&) = delete;
  ClientCheckpoints& operator=(const ClientCheckpoints&) = delete;

  struct SaveOptions {
    int64_t keep = 0;  // how many of the newest stay; 0: all
    bool lock = true;  // false: the user sees to it that no second run saves
    // How many of the newest directories of checkpoints that moved aside stay;
    // 0: all.
    int64_t keep_aside = 0;
  };
  struct Saved {
    std::string path;
    // Messages for the user: checkpoints of another run that moved aside, an
    // old one that cannot be removed. One line each, on rank 0.
    std::vector<std::string> notes;
  };
  // Saves into `directory`, which is made where it is missing, between steps.
  // Until the run ends, or saves into another, no other run can save there.
  // Checkpoints of later steps that the directory has when this run first saves
  // there are another run's: they move aside, as castor train does it.
  //
  // InvalidArgument: `text` is too long. FailedPrecondition: another run has
  // the directory. OutOfRange: a value is not finite. Unavailable: the files
  // could not be written, at a second attempt either. The files that were there
  // stay, and the run can go on.
  absl::StatusOr<Saved> Save(const std::string& directory, std::string text,
                             SaveOptions options);

  struct Found {
    std::string path;
    int64_t step = 0;
    std::optional<std::string> text;  // none: castor train wrote it
    // Newer checkpoints that were passed over because they are damaged; on
    // rank 0.
    std::vector<std::string> notes;
    std::vector<std::string> differences;  // see below
  };
  // Finds `path`, a checkpoint, or the newest whole one in a directory of
  // several. All of it is read and checked; nothing of the run changes. Load
  // applies it then.
  //
  // InvalidArgument: it is of another model or optimizer, or of a run whose
  // settings that determine bits (run_identity.h) differ; the message lists
  // them. With `changed`, other settings are no error, and the run that loads
  // it is another one from then on. NotFound, DataLoss, FailedPrecondition: see
  // CheckpointReader::Open.
  absl::StatusOr<Found> Find(const std::string& path, bool changed);
  // Loads values, states and the step of the checkpoint that was found last,
  // once, between steps.
  absl::Status Load();

 private:
  bool first() const { return ranks_ == nullptr || ranks_->rank() == 0; }
  absl::Status Claim(const std::string& directory, const std::string& text,
                     const SaveOptions& options,
                     std::vector<std::string>* notes);
  absl::StatusOr<std::string> Verify(const std::string& path,
                                     std::vector<std::string>* notes) const;
  absl::StatusOr<std::string> Open(bool changed, Found* found);
  // Returns the settings in which the checkpoint's run differs from this one.
  std::vector<std::string> DifferencesFrom(
      const CheckpointMetadata& metadata) const;

  ClientRun& run_;
  Communicator* const ranks_;  // null: one rank
  const Config config_;
  std::string run_id_;
  std::unique_ptr<CheckpointSource> found_;  // not taken yet
  TrainerState found_state_;
  std::string found_run_id_;
  int64_t loaded_step_ = -1;               // -1: it began with step 0
  std::unique_ptr<RunDirectory> claimed_;  // rank 0's; null: none
};

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_CHECKPOINTS_H_
