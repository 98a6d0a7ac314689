// Applies a rank's share of its machine to its configuration.
#ifndef CASTOR_CLI_MACHINE_APPLY_SHARE_H_
#define CASTOR_CLI_MACHINE_APPLY_SHARE_H_

#include "device/topology/share.h"
#include "run/config/config.h"

namespace castor::cli {

// Turns the machine's host_memory and pinned_memory into the rank's, and
// threads that the config leaves open into the share's. The result for one
// config is the same on all ranks. An unlimited budget stays unlimited: such a
// run is held to share.machine_bytes (MemoryOptions::machine_share_bytes).
void ApplyShare(const RankShare& share, Config* config);

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_APPLY_SHARE_H_
