// A castor process as one of several ranks: it joins them, and checks what must
// be the same on all. A process that was started alone is rank 0 of one.
#ifndef CASTOR_CLI_RUN_RANKS_H_
#define CASTOR_CLI_RUN_RANKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/run/input_identity.h"
#include "device/comm/communicator.h"
#include "device/comm/launch_env.h"
#include "device/comm/rank_group.h"
#include "run/config/config.h"

namespace castor::cli {

// Joins the ranks that this process's launcher started with it. From now on
// only rank 0 has a standard output. Errors as in RankGroup::Join.
absl::StatusOr<std::unique_ptr<RankGroup>> JoinRanks(
    const LaunchEnv& launch, const CommunicatorOptions& options);

// Leaves the group (null: there is none yet) after a failure that rank 0 tells
// for all, and waits until this rank may end too: mpirun of Open MPI 5 ends all
// ranks with the first that fails, and loses what another is just printing.
void LetFirstRankSpeak(std::unique_ptr<RankGroup> group);

// Checks that all ranks were given the same `config`, where it must be the
// same: paths may differ from machine to machine, and so may device.threads.
// All ranks call it together. InvalidArgument: names the key, and two ranks'
// values of it.
absl::Status CheckSameConfig(RankGroup& group, const Config& config);

// Checks that all ranks read the same data, wherever each has it.
// InvalidArgument: names the key, and two ranks' identities at it. Null
// communicator: one rank.
absl::Status CheckSameInputs(Communicator* communicator,
                             const std::vector<InputIdentity>& inputs);

// Waits until all ranks have come here.
absl::Status MeetAllRanks(Communicator* communicator, absl::string_view key);

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_RANKS_H_
