#include "device/topology/share.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "device/topology/processor_cut.h"

namespace castor {
namespace {

// Ranks by machine, machines in the order of their first rank.
std::vector<std::vector<int>> RanksOfMachines(absl::Span<const Place> places) {
  std::vector<std::vector<int>> machines;
  std::map<std::string, size_t> known;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const auto [it, is_new] =
        known.emplace(places[rank].machine, machines.size());
    if (is_new) machines.emplace_back();
    machines[it->second].push_back(static_cast<int>(rank));
  }
  return machines;
}

void ShareProcessors(absl::Span<const Place> places,
                     const std::vector<int>& ranks,
                     std::vector<RankShare>* shares) {
  std::vector<CoreSet> sets;
  for (int rank : ranks) sets.push_back(places[rank].cores);
  const std::vector<CoreSet> parts = CutProcessors(sets);
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankShare& share = (*shares)[ranks[i]];
    share.oversubscribed = parts[i].empty();
    const CoreSet& cores = share.oversubscribed ? sets[i] : parts[i];
    std::set<int> nodes;
    for (const PlaceCore& core : cores) {
      nodes.insert(core.node);
      share.processors.insert(share.processors.end(), core.processors.begin(),
                              core.processors.end());
    }
    std::sort(share.processors.begin(), share.processors.end());
    share.nodes.assign(nodes.begin(), nodes.end());
  }
}

// Returns the fewest bytes that a limit leaves to each of the machine's ranks
// that have it in common.
int64_t MemoryOf(absl::Span<const Place> places,
                 const std::vector<int>& ranks) {
  std::map<std::string, int64_t> sharers;
  for (int rank : ranks) {
    for (const MemoryLimit& limit : places[rank].memory) ++sharers[limit.id];
  }
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int rank : ranks) {
    for (const MemoryLimit& limit : places[rank].memory) {
      least = std::min(least, limit.bytes / sharers[limit.id]);
    }
  }
  return least;
}

}  // namespace

std::vector<RankShare> DivideMachines(absl::Span<const Place> places) {
  const std::vector<std::vector<int>> machines = RanksOfMachines(places);
  std::vector<RankShare> shares(places.size());
  int threads = std::numeric_limits<int>::max();
  int largest = 1;
  int64_t bytes = std::numeric_limits<int64_t>::max();
  for (size_t m = 0; m < machines.size(); ++m) {
    const std::vector<int>& ranks = machines[m];
    largest = std::max(largest, static_cast<int>(ranks.size()));
    bytes = std::min(bytes, MemoryOf(places, ranks));
    ShareProcessors(places, ranks, &shares);
    for (size_t i = 0; i < ranks.size(); ++i) {
      RankShare& share = shares[ranks[i]];
      share.rank = ranks[i];
      share.machine = static_cast<int>(m);
      share.machines = static_cast<int>(machines.size());
      share.local_rank = static_cast<int>(i);
      share.local_size = static_cast<int>(ranks.size());
      threads = std::min(
          threads,
          share.oversubscribed ? 1 : static_cast<int>(share.processors.size()));
    }
  }
  for (RankShare& share : shares) {
    share.threads = threads;
    share.largest_local_size = largest;
    share.machine_bytes = bytes;
  }
  return shares;
}

std::vector<std::string> ShareNotes(absl::Span<const Place> places,
                                    absl::Span<const RankShare> shares) {
  struct Machine {
    int ranks = 0, allowed = 0;
    bool oversubscribed = false;
    std::string host;
    std::set<int> bound;
  };
  std::map<int, Machine> machines;
  for (const RankShare& share : shares) {
    Machine& machine = machines[share.machine];
    const Place& place = places[share.rank];
    if (machine.ranks++ == 0) machine.host = place.host;
    machine.allowed = std::max(machine.allowed, place.allowed_processors);
    machine.oversubscribed |= share.oversubscribed;
    const ProcessorSet own = place.processors();
    machine.bound.insert(own.begin(), own.end());
  }
  std::vector<std::string> notes;
  for (const auto& [number, machine] : machines) {
    const int bound = static_cast<int>(machine.bound.size());
    if (machine.oversubscribed) {
      notes.push_back(
          absl::StrCat(machine.ranks, " ranks share ", bound, " processor",
                       bound == 1 ? "" : "s", " of ", machine.host,
                       ": oversubscribed, so each rank runs with one thread"));
    }
    if (bound < machine.allowed) {
      notes.push_back(absl::StrCat(
          "the launcher has bound the ranks on ", machine.host, " to ", bound,
          " of its ", machine.allowed,
          " processors (mpirun --bind-to none leaves it to castor to divide "
          "them)"));
    }
  }
  return notes;
}

}  // namespace castor
