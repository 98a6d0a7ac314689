// A hostfile says on which machines ranks are started, as mpirun's does.
//
//   node1 slots=4      # a machine for four ranks
//   node2:4            # the same; of an IPv6 address: [fe80::7]:4
//   user@10.0.0.7      # one slot, where nothing is said
//
// Ranks are counted machine by machine, in the file's order.
#ifndef CASTOR_CLI_LAUNCH_HOSTFILE_H_
#define CASTOR_CLI_LAUNCH_HOSTFILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor::cli {

// The most ranks of a run: more than anybody asks for, and few enough to be
// counted.
inline constexpr int kMaxRanks = 1 << 16;

struct HostSlots {
  std::string host;  // as the remote shell takes it
  int slots = 1;

  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// Parses a hostfile. InvalidArgument, with `name` and the line's number: a line
// is of another form. A machine that is named again gets so many more slots;
// none has more than kMaxRanks.
absl::StatusOr<std::vector<HostSlots>> ParseHostfile(absl::string_view name,
                                                     absl::string_view text);

// Reads and parses a file. NotFound, PermissionDenied: it cannot be read.
absl::StatusOr<std::vector<HostSlots>> ReadHostfile(const std::string& path);

// The place where one rank is started.
struct RankPlace {
  std::string host;
  int local_rank = 0;
  int local_size = 1;

  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

// Returns the places of `num_ranks` ranks, by rank; 0: as many as there are
// slots. InvalidArgument: more than there are slots, or than kMaxRanks.
absl::StatusOr<std::vector<RankPlace>> PlaceRanks(
    const std::vector<HostSlots>& hosts, int num_ranks);

}  // namespace castor::cli

#endif  // CASTOR_CLI_LAUNCH_HOSTFILE_H_
