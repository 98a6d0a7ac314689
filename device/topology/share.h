// Divides the machines of a run among its ranks: processors by affinity, memory
// equally. A pure function of all ranks' places, so that every rank knows every
// rank's share.
//
// Processors. Ranks that a launcher has bound to sets of processors which are
// disjoint keep theirs. Ranks with equal sets divide them, neighbours to
// neighbouring ranks: whole cores where there are enough, else processors.
//
//   Cut    at the borders of NUMA nodes, as hwloc_distrib does, if the smallest
//          share is then no smaller than that of an even cut; else evenly. (All
//          ranks go at the pace of the slowest.)
//
//   3 ranks on 2 nodes of 4 cores     2, 2 | 4      an even cut's least: 2
//   3 ranks on 2 nodes of 12 cores    8, 4|4, 8     by nodes: 6, 6 | 12
//
// Ranks whose sets overlap otherwise divide them one by one: first the
// processors that the fewest ranks may use, each to the rank with the fewest so
// far. A rank for which none is left keeps its whole set together with the
// others, with one thread: *oversubscribed*.
//
// Memory and threads are the same on all ranks, since their plans must be
// equal: the smallest share of any rank.
#ifndef CASTOR_DEVICE_TOPOLOGY_SHARE_H_
#define CASTOR_DEVICE_TOPOLOGY_SHARE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "device/topology/place.h"

namespace castor {

struct RankShare {
  int rank = 0;
  int machine = 0;  // machines count from 0, in the order of their first rank
  int local_rank = 0;  // among the ranks of its machine
  int local_size = 1;
  int machines = 1;

  ProcessorSet processors;  // to run on
  std::vector<int> nodes;   // NUMA nodes that these are near to
  bool oversubscribed = false;

  // The same on all ranks:
  int threads = 1;             // of a loop
  int largest_local_size = 1;  // the divisor of a machine's budget
  // One rank's share of the memory that machines and control groups have.
  int64_t machine_bytes = 0;

  friend bool operator==(const RankShare&, const RankShare&) = default;
};

// Returns the shares by rank. `places`, by rank, is not empty.
std::vector<RankShare> DivideMachines(absl::Span<const Place> places);

// Returns notes on the division for the user, a sentence each: ranks that are
// oversubscribed; a launcher that has bound them to few of their processors.
std::vector<std::string> ShareNotes(absl::Span<const Place> places,
                                    absl::Span<const RankShare> shares);

}  // namespace castor

#endif  // CASTOR_DEVICE_TOPOLOGY_SHARE_H_
