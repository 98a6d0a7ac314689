#include "client/launched_ranks.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/comm/tcp/tcp_transport.h"

namespace castor {

absl::StatusOr<LaunchEnv> LaunchOfClient(const Environment& environment,
                                         bool port_is_stores) {
  CASTOR_ASSIGN_OR_RETURN(LaunchEnv launch, DetectLaunch(environment));
  if (port_is_stores) launch.master_is_store = true;
  if (!std::exchange(launch.over_mpi, false) || launch.world_size == 1 ||
      !launch.master_address.empty()) {
    return launch;
  }
  const auto address = environment.find("MASTER_ADDR");
  const auto port = environment.find("MASTER_PORT");
  if (address == environment.end() || port == environment.end() ||
      !absl::SimpleAtoi(port->second, &launch.master_port) ||
      launch.master_port < 1 || launch.master_port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        LauncherName(launch.launcher), " started ", launch.world_size,
        " ranks, which meet over TCP here: give all of them MASTER_ADDR (rank "
        "0's host) and MASTER_PORT (a free port of it), as with mpirun -x "
        "MASTER_ADDR=127.0.0.1 -x MASTER_PORT=29500"));
  }
  launch.master_address = address->second;
  return launch;
}

absl::StatusOr<std::unique_ptr<RankGroup>> JoinLaunchedRanks(
    const LaunchEnv& launch, const CommunicatorOptions& limits) {
  if (launch.world_size == 1) {
    return std::make_unique<RankGroup>(nullptr, limits);
  }
  TcpOptions options;
  options.connect_limit_ns = limits.start_limit_ns;
  options.take_sigterm = false;  // the program's own
  // A program may join several times, one after the other. What rank 0 left in
  // the store before stays there: each time has another name.
  static std::atomic<int> joined = 0;
  LaunchEnv own = launch;
  absl::StrAppend(&own.run_id, " ", ++joined);
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                          JoinTcp(own, options));
  return std::make_unique<RankGroup>(std::move(transport), limits);
}

absl::Status BroadcastBytes(RankGroup& ranks, absl::string_view key, int root,
                            absl::Span<char> data) {
  // A group exchanges texts, and holds each whole beside these bytes.
  constexpr size_t kPieceBytes = size_t{1} << 22;
  if (ranks.world_size() == 1) return absl::OkStatus();
  const std::string sized = absl::StrCat(key, ", ", data.size(), " bytes");
  for (size_t at = 0; at < data.size(); at += kPieceBytes) {
    const absl::Span<char> piece = data.subspan(at, kPieceBytes);
    absl::string_view mine;
    if (ranks.rank() == root) mine = {piece.data(), piece.size()};
    CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                            ranks.Exchange(sized, mine));
    const std::string& theirs = all[root];
    if (theirs.size() != piece.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", root, " sends ", theirs.size(), " bytes of \"",
                       sized, "\", and this rank wants ", piece.size()));
    }
    std::copy(theirs.begin(), theirs.end(), piece.begin());
  }
  return absl::OkStatus();
}

}  // namespace castor
