// How far a training has come, beside its parameters and optimizer states.
#ifndef CASTOR_RUN_CHECKPOINT_TRAINER_STATE_H_
#define CASTOR_RUN_CHECKPOINT_TRAINER_STATE_H_

#include <cstdint>
#include <optional>

#include "run/optim/loss_scaler.h"

namespace castor {

struct TrainerState {
  int64_t step = 0;           // steps that are over
  int64_t skipped_steps = 0;  // of these: a gradient was not finite
  // None where the loss is not scaled.
  std::optional<LossScaleState> loss_scale = {};

  friend bool operator==(const TrainerState&, const TrainerState&) = default;
};

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_TRAINER_STATE_H_
