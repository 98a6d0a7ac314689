// The options of a run that all of its ranks must share, as settings by the
// names of a configuration's keys. Each function takes its options apart member
// by member, so that a new one does not compile before somebody has said
// whether ranks must share it.
#ifndef CASTOR_RUN_OPTION_SETTINGS_H_
#define CASTOR_RUN_OPTION_SETTINGS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/settings.h"
#include "device/comm/communicator.h"
#include "nlohmann/json.hpp"
#include "run/optim/loss_scaler.h"
#include "run/optim/optimizer.h"
#include "run/options.h"

namespace castor {

// The leaves of an object.
Settings SettingsOf(const nlohmann::json& json);

// "memory" of a configuration.
nlohmann::json MemorySettings(const MemoryOptions& memory);

// "optimizer" of a configuration, but for rates and decay, which are each
// step's and each parameter's.
nlohmann::json OptimizerSettings(const Optimizer& rule);

// "fp16" of a configuration.
nlohmann::json LossScaleSettings(const LossScaleOptions& scale);

// A parameter, whose place in the model is `number`.
nlohmann::json ParameterSettings(int64_t number, int64_t elements,
                                 bool trainable, double weight_decay,
                                 double lr_factor);

// `mine` of each rank: OK on all if they are the same, else on all ranks what
// the lowest one has that rank 0 has not (CheckSameSettings).
absl::Status AgreeOnSettings(Communicator& ranks, const Settings& mine);

// The error of a step for which ranks have other learning rates.
absl::Status DifferingRates(int64_t step, double first, int rank, double rate);

}  // namespace castor

#endif  // CASTOR_RUN_OPTION_SETTINGS_H_
