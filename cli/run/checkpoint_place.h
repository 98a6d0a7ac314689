// What a configuration says of the place of a run's checkpoints, for those who
// run it and those who plan it.
#ifndef CASTOR_CLI_RUN_CHECKPOINT_PLACE_H_
#define CASTOR_CLI_RUN_CHECKPOINT_PLACE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "run/config/config.h"

namespace castor::cli {

// Whether the configuration at `config_path` does not say where, so that the
// place is DefaultCheckpointDir.
bool HasDefaultPlace(const Config& config, const std::string& config_path);

// `status` with the key to which it belongs; where the user has not chosen the
// place, with what to say who wants nothing saved.
absl::Status OfPlace(const absl::Status& status, const Config& config,
                     const std::string& config_path);

// How many checkpoints a run saves that goes on from `step`: with
// checkpoint.load_best at most, and 1 while its steps are not known.
int64_t SavesFrom(const Config& config, int64_t step);

// How many checkpoints of a run stay: checkpoint.keep, and the best.
int64_t KeptCheckpoints(const Config& config);

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_CHECKPOINT_PLACE_H_
