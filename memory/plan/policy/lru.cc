// Least recently used: the baseline that shows the value of knowing the future.
//
// The moments are walked as by a cache that does not know the future. A chunk
// comes when an operator uses it and stays until its room is needed; then the
// chunk whose last use is the longest ago leaves. Optimizer states are on the
// host. Only the choice of the victim is blind: chunks that left are fetched in
// time, as under other policies, so that a comparison shows the choice alone.
#include <set>
#include <utility>
#include <vector>

#include "memory/plan/policy/schedules.h"
#include "memory/plan/residency/prefetch.h"
#include "memory/plan/residency/residency.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/residency/use_index.h"

namespace castor {
namespace {

// A cache that repeats the same step.
class Cache {
 public:
  Cache(const UseIndex& index, const std::vector<int64_t>& free_bytes)
      : index_(index),
        free_bytes_(free_bytes),
        starting_(index.moments()),
        ending_(index.moments()),
        used_at_(index.gaps().size(), kGone),
        residency_(StayEverywhere(index)) {
    for (size_t g = 0; g < index.gaps().size(); ++g) {
      const Gap& gap = index.gaps()[g];
      if (gap.forced()) continue;
      starting_[(gap.from + 1) % index.moments()].push_back(g);
      ending_[gap.to % index.moments()].push_back(g);
    }
  }

  // One step. Returns whether it ended with the chunks that it began with, so
  // that the next step will decide as this one did.
  bool Walk() {
    const std::vector<size_t> before = Kept();
    for (int64_t t = 0; t < index_.moments(); ++t, ++now_) {
      for (const size_t g : ending_[t]) Use(g);
      for (const size_t g : starting_[t]) Keep(g);
      while (bytes_ > free_bytes_[t]) DropOldest();
    }
    return Kept() == before;
  }

  const Residency& residency() const { return residency_; }

 private:
  static constexpr int64_t kGone = -1;

  std::vector<size_t> Kept() const {
    std::vector<size_t> kept;
    for (const auto& [used_at, g] : by_age_) kept.push_back(g);
    return kept;
  }

  void Keep(size_t g) {
    used_at_[g] = now_ - 1;
    by_age_.insert({used_at_[g], g});
    bytes_ += index_.gaps()[g].bytes;
  }

  // At the gap's end a chunk that is still there has stayed.
  void Use(size_t g) {
    if (used_at_[g] == kGone) return;
    by_age_.erase({used_at_[g], g});
    bytes_ -= index_.gaps()[g].bytes;
    used_at_[g] = kGone;
    residency_[g] = {true, index_.gaps()[g].to, -1};
  }

  void DropOldest() {
    const auto [used_at, g] = *by_age_.begin();
    by_age_.erase(by_age_.begin());
    const Gap& gap = index_.gaps()[g];
    bytes_ -= gap.bytes;
    used_at_[g] = kGone;
    residency_[g] = {false, gap.to, gap.from + (now_ - used_at)};
  }

  const UseIndex& index_;
  const std::vector<int64_t>& free_bytes_;
  // The gaps by their first moment, and by the use after them.
  std::vector<std::vector<size_t>> starting_, ending_;
  int64_t now_ = 0;  // moments since the first step began
  // The chunks in the cache that are not in use: their last use and their gap.
  std::set<std::pair<int64_t, size_t>> by_age_;
  std::vector<int64_t> used_at_;  // by gap
  int64_t bytes_ = 0;
  Residency residency_;  // as the latest step has decided so far
};

}  // namespace

Plan PlanLru(const PlanRequest& request, const Admission& admission) {
  const std::vector<Side> side = AdmittedSides(request, admission);
  const UseIndex index(*request.trace, side);
  const std::vector<int64_t> free_bytes = FreeBesideNeeds(request, side);

  // The first steps fill the cache; then they become alike.
  constexpr int kMostSteps = 16;
  Cache cache(index, free_bytes);
  for (int step = 0; step < kMostSteps; ++step) {
    if (cache.Walk()) break;
  }
  Residency residency = cache.residency();

  // If they never do, the choices of one step may not fit the next one: then
  // chunks without room in both steps leave.
  Room room(free_bytes);
  for (size_t g = 0; g < residency.size(); ++g) {
    const Gap& gap = index.gaps()[g];
    if (!residency[g].stays) continue;
    if (room.Min(gap.from + 1, gap.to) >= gap.bytes) {
      room.Take(gap.from + 1, gap.to, gap.bytes);
    } else {
      residency[g] = {false, gap.to, gap.to};
    }
  }
  if (request.prefetch) {
    const std::vector<int64_t> fetches = FetchesByNeed(index, residency);
    MoveFetchesUp(index, fetches,
                  DueMoments(index, request.bus, /*strength=*/1, fetches), room,
                  residency);
  }
  return WritePlan(request, side, index, residency);
}

}  // namespace castor
