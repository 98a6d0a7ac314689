// The checkpoints of one run of `castor train`: where it goes on from, and what
// it saves. All ranks call the same functions together; rank 0 alone changes
// what is in the directory beside the checkpoint that all of them write.
#ifndef CASTOR_CLI_RUN_CHECKPOINTS_H_
#define CASTOR_CLI_RUN_CHECKPOINTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/session.h"
#include "device/comm/communicator.h"
#include "runtime/config/config.h"
#include "runtime/io/checkpoint_dir.h"

namespace castor::cli {

class RunCheckpoints {
 public:
  // `resume` is --resume's value: "", "latest" or a checkpoint. `session` is
  // borrowed and stays alive.
  RunCheckpoints(std::string resume, Session* session);

  // Gives the session's parameters their values: initial ones, or those of the
  // checkpoint that --resume names.
  absl::Status Restore();

  // Makes checkpoint.dir ready for this run, after Restore and before the first
  // step. Later steps' checkpoints that are another run's move aside.
  absl::Status Prepare();

  // Saves the session's step and removes what is older than checkpoint.keep;
  // nothing without checkpoint.dir, or when that step is saved already.
  absl::Status Save();

  // The newest checkpoint in the directory that is this run's, or "".
  std::string newest() const;

 private:
  absl::StatusOr<std::string> FindLatest();
  absl::Status Resume();
  absl::Status PrepareDirectory();

  const std::string resume_;
  Session& session_;
  const Config& config_;
  const CheckpointDir directory_;
  Communicator* const ranks_;  // null: one rank
  const bool first_;           // rank 0
  int64_t saved_step_ = -1;
};

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_CHECKPOINTS_H_
