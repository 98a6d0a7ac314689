// The part of a trainer's options that ranks must share.
#ifndef CASTOR_RUNTIME_TRAIN_TRAINER_SETTINGS_H_
#define CASTOR_RUNTIME_TRAIN_TRAINER_SETTINGS_H_

#include "base/settings.h"
#include "runtime/autograd/engine.h"
#include "runtime/train/trainer_options.h"

namespace castor {

// All that decides a run's maths or its plans, by the names of a
// configuration's keys where it has them. The learning rates are not among
// them: each step compares its own. Nor is the model, but for its parameters.
Settings SettingsOf(const TrainerOptions& options, const Engine& engine);

}  // namespace castor

#endif  // CASTOR_RUNTIME_TRAIN_TRAINER_SETTINGS_H_
