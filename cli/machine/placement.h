// The places of all ranks of a run, and the share that each takes of its
// machine.
#ifndef CASTOR_CLI_MACHINE_PLACEMENT_H_
#define CASTOR_CLI_MACHINE_PLACEMENT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/comm/rank_group.h"
#include "device/topology/place.h"
#include "device/topology/share.h"
#include "run/config/config.h"

namespace castor::cli {

struct Placement {
  std::vector<Place> places;  // both by rank
  std::vector<RankShare> shares;
};

// Finds the places of all ranks, which all call it. Errors are the group's; a
// rank that cannot tell its place makes it fail on all.
absl::StatusOr<Placement> FindPlacement(RankGroup& group);

// Divides machines among the ranks that are on them: applies this rank's share
// to `config` (see ApplyShare) and binds the process, with the threads that it
// has and will have, to the share's processors. `notes` are for the user,
// from rank 0. A group of one has all of its machine, and its config stays as
// it is; its share's machine_bytes is 0.
absl::StatusOr<RankShare> TakeShare(RankGroup& group, Config* config,
                                    std::vector<std::string>* notes);

// Returns the map that `castor info` prints: for each machine its ranks with
// their processors, NUMA nodes and memory. `launcher` and `network` are names.
std::string FormatPlacement(const Placement& placement,
                            absl::string_view launcher,
                            absl::string_view network);

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_PLACEMENT_H_
