// The place of a run's checkpoints as its configuration has it, for commands
// that run it and commands that plan it.
#ifndef CASTOR_CLI_RUN_CHECKPOINT_PLACE_H_
#define CASTOR_CLI_RUN_CHECKPOINT_PLACE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "run/config/config.h"

namespace castor::cli {

// Returns true if the configuration at `config_path` does not name the place,
// so that it is DefaultCheckpointDir.
bool HasDefaultPlace(const Config& config, const std::string& config_path);

// Returns `status` with the key to which it belongs; where the user has not
// chosen the place, also with the setting for a user who wants nothing saved.
absl::Status OfPlace(const absl::Status& status, const Config& config,
                     const std::string& config_path);

// Returns how many checkpoints a run saves that goes on from `step`: with
// checkpoint.load_best at most so many, and 1 while its steps are not known.
int64_t SavesFrom(const Config& config, int64_t step);

// Returns how many checkpoints of a run stay: checkpoint.keep, and the best.
int64_t KeptCheckpoints(const Config& config);

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_CHECKPOINT_PLACE_H_
