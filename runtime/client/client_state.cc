// What of a client's run goes into a checkpoint, and comes from one.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/client/client_run.h"

namespace castor {

absl::Status ClientRun::CheckAlone() const {
  if (!shared()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "checkpoints of a client's run on several ranks (here ",
      layout_.world_size,
      ") are not there yet: all ranks take the values (in PyTorch state_dict "
      "or save_pretrained), and one of them writes them"));
}

absl::Status ClientRun::Save(const std::string& path,
                             CheckpointMetadata metadata) {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(failure_);
  CASTOR_RETURN_IF_ERROR(CheckAlone());
  if (in_step()) {
    return absl::FailedPreconditionError(
        "a checkpoint within a step: end the step first");
  }
  CASTOR_RETURN_IF_ERROR(CheckFilled());
  CASTOR_RETURN_IF_ERROR(Await(device_->NowAll()));
  metadata.state.trainer.step = steps_;
  return SaveCheckpoint(path, parameters_, *store_, metadata,
                        /*communicator=*/nullptr);
}

absl::Status ClientRun::Restore(ParameterSource& source, int64_t step) {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(failure_);
  CASTOR_RETURN_IF_ERROR(CheckAlone());
  if (in_step()) {
    return absl::FailedPreconditionError(
        "a checkpoint is loaded within a step: end the step first");
  }
  // What the device holds is where the last plan left it.
  followed_ = nullptr;
  CASTOR_RETURN_IF_ERROR(Await(device_->NowAll()));
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    CASTOR_RETURN_IF_ERROR(Evict(ChunkId(i)));
  }
  CASTOR_RETURN_IF_ERROR(Await(device_->NowAll()));
  failure_.Update(FillChunks(parameters_, *store_, source));
  CASTOR_RETURN_IF_ERROR(failure_);
  filled_.assign(filled_.size(), true);
  steps_ = step;
  return absl::OkStatus();
}

}  // namespace castor
