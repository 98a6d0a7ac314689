// Saves a client's run to a checkpoint, and restores it from one.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/client_run.h"
#include "device/comm/agreement.h"

namespace castor {

absl::Status ClientRun::Save(const std::string& path,
                             CheckpointMetadata metadata) {
  CASTOR_RETURN_IF_ERROR(MeetBetweenSteps(RankCall::kSaveCheckpoint, path));
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(CheckFilled());
  CASTOR_RETURN_IF_ERROR(Await(device_->NowAll()));
  metadata.state.trainer = {.step = steps_,
                            .skipped_steps = skipped_steps_,
                            .missed_updates = optimizer_->MissedUpdates(),
                            .loss_scale = skips_->scale_state()};
  metadata.client_world_size = layout_.world_size;
  return SaveCheckpoint(path, parameters_, *store_, metadata, managed_.ranks());
}

absl::Status ClientRun::Restore(ParameterSource& source,
                                const TrainerState& state) {
  CASTOR_RETURN_IF_ERROR(MeetBetweenSteps(RankCall::kLoadCheckpoint,
                                          absl::StrCat("step ", state.step)));
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(EvictAll());
  optimizer_->ForgetBroken();
  optimizer_->SetMissedUpdates(state.missed_updates);
  absl::Status filled = FillChunks(parameters_, *store_, source);
  if (shared()) {
    filled = AgreeOnStatus(*managed_.ranks(), "values of a checkpoint", filled);
  }
  if (std::exchange(spoiled_, false)) failure_ = absl::OkStatus();
  failure_.Update(filled);
  CASTOR_RETURN_IF_ERROR(Told(failure_));
  filled_.assign(filled_.size(), true);
  steps_ = state.step;
  skipped_steps_ = state.skipped_steps;
  skips_->Restore(state.loss_scale);
  return absl::OkStatus();
}

}  // namespace castor
