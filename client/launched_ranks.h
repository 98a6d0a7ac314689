// The ranks that this process was started with, for a client of another
// framework, which does not link MPI: they meet over TCP.
#ifndef CASTOR_CLIENT_LAUNCHED_RANKS_H_
#define CASTOR_CLIENT_LAUNCHED_RANKS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "device/comm/launch_env.h"
#include "device/comm/rank_group.h"

namespace castor {

// Returns how this process was started (launch_env.h). InvalidArgument: see
// DetectLaunch; or a launcher that starts ranks over MPI has not said, in
// MASTER_ADDR and MASTER_PORT, where rank 0 is reached. `port_is_stores`: that
// port is one of PyTorch's stores, in which the ranks then find each other.
absl::StatusOr<LaunchEnv> LaunchOfClient(const Environment& environment,
                                         bool port_is_stores = false);

// Joins the ranks. All of them call it together, and wait for each other as
// long as `limits` says. A process that was started alone is a group of one.
// Errors as JoinTcp's.
absl::StatusOr<std::unique_ptr<RankGroup>> JoinLaunchedRanks(
    const LaunchEnv& launch, const CommunicatorOptions& limits = {});

// Makes `data`, of one size on all ranks, rank `root`'s. All of them call it
// together. Errors as RankGroup::Exchange's; FailedPrecondition where sizes
// differ.
absl::Status BroadcastBytes(RankGroup& ranks, absl::string_view key, int root,
                            absl::Span<char> data);

}  // namespace castor

#endif  // CASTOR_CLIENT_LAUNCHED_RANKS_H_
