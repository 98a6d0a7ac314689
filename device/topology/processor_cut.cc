#include "device/topology/processor_cut.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace castor {
namespace {

// The units that are given to one rank whole, each written as a core: a core,
// or one of its processors alone.
using Units = std::vector<PlaceCore>;

Units SplitCores(const CoreSet& cores) {
  Units units;
  for (const PlaceCore& core : cores) {
    for (int processor : core.processors) {
      units.push_back({core.core, core.node, {processor}});
    }
  }
  return units;
}

void Add(const PlaceCore& unit, CoreSet* part) {
  for (PlaceCore& core : *part) {
    if (core.core != unit.core) continue;
    core.processors.insert(core.processors.end(), unit.processors.begin(),
                           unit.processors.end());
    std::sort(core.processors.begin(), core.processors.end());
    return;
  }
  part->insert(std::upper_bound(part->begin(), part->end(), unit,
                                [](const PlaceCore& a, const PlaceCore& b) {
                                  return a.core < b.core;
                                }),
               unit);
}

// Sizes of `n` parts of `units` units, one after the other, that differ by one
// at most.
std::vector<int64_t> EvenSizes(int64_t units, int64_t n) {
  std::vector<int64_t> sizes(n);
  for (int64_t i = 0; i < n; ++i) {
    sizes[i] = units * (i + 1) / n - units * i / n;
  }
  return sizes;
}

// Sizes of `n` parts none of which goes over a border of nodes that it need not
// go over: hwloc_distrib's rule, by which the first k nodes' processors get
// their share of the parts, rounded up.
std::vector<int64_t> SizesByNode(const Units& units, int64_t n) {
  std::vector<int64_t> sizes;
  const int64_t total = static_cast<int64_t>(units.size());
  int64_t begin = 0, given = 0;
  while (begin < total) {
    int64_t end = begin + 1;
    while (end < total && units[end].node == units[begin].node) ++end;
    const int64_t upto = (end * n + total - 1) / total;
    if (upto == given) {
      sizes.back() += end - begin;  // more nodes than parts
    } else {
      for (int64_t size : EvenSizes(end - begin, upto - given)) {
        sizes.push_back(size);
      }
    }
    given = upto;
    begin = end;
  }
  return sizes;
}

std::vector<CoreSet> CutEqual(const CoreSet& cores, int64_t n) {
  Units units = cores;
  if (static_cast<int64_t>(units.size()) < n) units = SplitCores(cores);
  if (static_cast<int64_t>(units.size()) < n) {
    return std::vector<CoreSet>(n);  // nothing for anyone
  }
  std::vector<int64_t> sizes = SizesByNode(units, n);
  const std::vector<int64_t> even =
      EvenSizes(static_cast<int64_t>(units.size()), n);
  if (*std::min_element(sizes.begin(), sizes.end()) <
      *std::min_element(even.begin(), even.end())) {
    sizes = even;
  }
  std::vector<CoreSet> parts(n);
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < sizes[i]; ++k) Add(units[at++], &parts[i]);
  }
  return parts;
}

// Sets that overlap, but are not all equal.
std::vector<CoreSet> CutOverlapping(const std::vector<const CoreSet*>& sets) {
  // A processor and the sets that may use it.
  struct Candidate {
    PlaceCore unit;
    std::vector<int> users;
  };
  std::map<int, std::map<int, std::vector<int>>> users;
  std::map<int, int> node;
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const PlaceCore& core : *sets[i]) {
      node[core.core] = core.node;
      for (int processor : core.processors) {
        users[core.core][processor].push_back(static_cast<int>(i));
      }
    }
  }
  std::vector<Candidate> candidates;
  for (const auto& [core, processors] : users) {
    const std::vector<int>& first = processors.begin()->second;
    const bool whole =
        std::all_of(processors.begin(), processors.end(),
                    [&](const auto& p) { return p.second == first; });
    for (const auto& [processor, who] : processors) {
      if (whole && processor != processors.begin()->first) {
        candidates.back().unit.processors.push_back(processor);
      } else {
        candidates.push_back({{core, node[core], {processor}}, who});
      }
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.users.size() < b.users.size();
                   });
  std::vector<CoreSet> parts(sets.size());
  std::vector<size_t> processors(sets.size());
  for (const Candidate& candidate : candidates) {
    const int taker = *std::min_element(
        candidate.users.begin(), candidate.users.end(),
        [&](int a, int b) { return processors[a] < processors[b]; });
    Add(candidate.unit, &parts[taker]);
    processors[taker] += candidate.unit.processors.size();
  }
  return parts;
}

}  // namespace

std::vector<CoreSet> CutProcessors(absl::Span<const CoreSet> sets) {
  // Groups of sets that hang together, each known by its first.
  const int n = static_cast<int>(sets.size());
  std::vector<int> group(n);
  std::iota(group.begin(), group.end(), 0);
  std::map<int, int> owner;  // of each processor, the first set that has it
  for (int i = 0; i < n; ++i) {
    for (const PlaceCore& core : sets[i]) {
      for (int processor : core.processors) {
        const int other = group[owner.emplace(processor, i).first->second];
        const int own = group[i];
        if (other == own) continue;
        std::replace(group.begin(), group.end(), std::max(own, other),
                     std::min(own, other));
      }
    }
  }
  std::vector<CoreSet> parts(n);
  for (int first = 0; first < n; ++first) {
    std::vector<int> members;
    for (int i = 0; i < n; ++i) {
      if (group[i] == first) members.push_back(i);
    }
    if (members.empty()) continue;
    std::vector<const CoreSet*> those;
    for (int i : members) those.push_back(&sets[i]);
    const bool equal =
        std::all_of(those.begin(), those.end(),
                    [&](const CoreSet* set) { return *set == *those[0]; });
    const std::vector<CoreSet> cut =
        equal ? CutEqual(*those[0], static_cast<int64_t>(those.size()))
              : CutOverlapping(those);
    for (size_t k = 0; k < members.size(); ++k) parts[members[k]] = cut[k];
  }
  return parts;
}

}  // namespace castor
