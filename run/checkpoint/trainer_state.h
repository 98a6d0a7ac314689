// How far a training has come, beside its parameters and optimizer states.
#ifndef CASTOR_RUN_CHECKPOINT_TRAINER_STATE_H_
#define CASTOR_RUN_CHECKPOINT_TRAINER_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "run/optim/loss_scaler.h"

namespace castor {

struct TrainerState {
  int64_t step = 0;           // steps that are over
  int64_t skipped_steps = 0;  // of these: a gradient was not finite
  // By name: in how many updates a parameter had no gradient, if in any. They
  // do not count in its bias corrections.
  std::map<std::string, int64_t> missed_updates = {};
  // None where the loss is not scaled.
  std::optional<LossScaleState> loss_scale = {};

  friend bool operator==(const TrainerState&, const TrainerState&) = default;
};

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_TRAINER_STATE_H_
