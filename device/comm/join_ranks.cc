// RankGroup::Join, which alone needs MPI.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/comm/mpi/mpi_transport.h"
#include "device/comm/rank_group.h"
#include "device/comm/tcp/tcp_transport.h"

namespace castor {

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Join(
    const LaunchEnv& launch, const CommunicatorOptions& options) {
  CASTOR_RETURN_IF_ERROR(Check(options));
  if (launch.world_size == 1) {
    return std::make_unique<RankGroup>(nullptr, options);
  }
  MpiOptions mpi;
  mpi.place = {.rank = launch.rank,
               .world_size = launch.world_size,
               .local_size = launch.local_size};
  mpi.limit_ns = options.start_limit_ns;
  TcpOptions tcp;
  tcp.connect_limit_ns = options.start_limit_ns;
  CASTOR_ASSIGN_OR_RETURN(
      std::unique_ptr<Transport> transport,
      launch.over_mpi ? JoinMpi(mpi) : JoinTcp(launch, tcp));
  auto group = std::make_unique<RankGroup>(std::move(transport), options);
  if (group->world_size() != launch.world_size ||
      group->rank() != launch.rank) {
    return absl::UnavailableError(absl::StrCat(
        LauncherName(launch.launcher), " started this process as rank ",
        launch.rank, " of ", launch.world_size, ", and MPI says rank ",
        group->rank(), " of ", group->world_size(),
        ": start the ranks by the mpirun of the MPI that castor is built "
        "with"));
  }
  return group;
}

}  // namespace castor
