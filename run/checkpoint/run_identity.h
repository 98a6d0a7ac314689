// Whose a checkpoint is: which run began it, and which settings determine its
// bits. Placement, budgets, the number of ranks and the number of steps do not.
#ifndef CASTOR_RUN_CHECKPOINT_RUN_IDENTITY_H_
#define CASTOR_RUN_CHECKPOINT_RUN_IDENTITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/settings.h"
#include "run/config/config.h"

namespace castor {

struct RunIdentity {
  // 128 random bits in hexadecimal, drawn when the run began; "" in checkpoints
  // from before there were identities.
  std::string id;
  // The size and a checksum of the files that were read at data.train.
  std::string data;
};

// The settings of a run that determine its bits. A new key of the configuration
// belongs to them until it is left out here.
Settings SettingsOf(const Config& config, absl::string_view data);

// The same for a client (ParseClientConfig), whose model and data are its own:
// what `config` says beside these, and how many micro batches make a step on
// all ranks together.
Settings ClientSettingsOf(const Config& config, int64_t world_size);
// The settings in which a run of castor train and a client's can be compared.
Settings CommonSettingsOf(const Config& config);

// SHA-256, in hexadecimal: equal for equal settings only.
std::string DigestOf(const Settings& settings);

// "optimizer.params.lr: 0.001 then, 0.1 now", for each that differs.
std::vector<std::string> Differences(const Settings& then, const Settings& now);

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_RUN_IDENTITY_H_
