#include "cli/machine/apply_share.h"

#include "base/units.h"

namespace castor::cli {

void ApplyShare(const RankShare& share, Config* config) {
  if (config->device.threads == 0) {
    config->device.threads = ThreadsOn(config->device.type, share.threads);
  }
  for (int64_t* const bytes :
       {&config->memory.host_memory, &config->memory.pinned_memory}) {
    if (*bytes < kUnlimitedBytes) *bytes /= share.largest_local_size;
  }
}

}  // namespace castor::cli
