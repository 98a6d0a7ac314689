#include "cli/run/checkpoint_place.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"

namespace castor::cli {

bool HasDefaultPlace(const Config& config, const std::string& config_path) {
  return config.checkpoint.dir == DefaultCheckpointDir(config_path);
}

absl::Status OfPlace(const absl::Status& status, const Config& config,
                     const std::string& config_path) {
  if (status.ok() || !HasDefaultPlace(config, config_path)) {
    return Annotate("checkpoint.dir", status);
  }
  return absl::Status(
      status.code(),
      absl::StrCat("checkpoint.dir (not given): ", status.message(),
                   "; give another one, or say \"checkpoint\": false where "
                   "nothing is to be saved"));
}

int64_t SavesFrom(const Config& config, int64_t step) {
  const int64_t to = config.steps;
  const int64_t interval = config.checkpoint.save_interval;
  if (config.checkpoint.load_best) return std::max<int64_t>(1, to - step);
  if (step >= to || interval == 0) return 1;
  return to / interval - step / interval + (to % interval != 0);
}

int64_t KeptCheckpoints(const Config& config) {
  return config.checkpoint.keep + (config.checkpoint.load_best ? 1 : 0);
}

}  // namespace castor::cli
