#include "memory/plan/residency/prefetch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace castor {
namespace {

// Returns the time of a fetch; the other ranks' shards come over the network
// after this rank's.
int64_t CopyNs(const Gap& gap, const BusModel& bus, double strength) {
  const int64_t others = gap.bytes - gap.home_bytes;
  return static_cast<int64_t>(std::ceil(
      strength *
      (static_cast<double>(bus.latency_ns) +
       static_cast<double>(gap.home_bytes) * 1e9 / bus.h2d_bytes_per_s +
       static_cast<double>(others) * 1e9 / bus.network_bytes_per_s)));
}

// Returns the order of `fetches` by the moment of the step at which the chunk
// is used. A use after the end of the step counts by its moment in the next
// step, which is the same one. Fetches of one moment are in the order given.
std::vector<size_t> OrderOfUse(const UseIndex& index,
                               const std::vector<int64_t>& fetches) {
  std::vector<size_t> order(fetches.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> use;
  use.reserve(fetches.size());
  for (const int64_t g : fetches) {
    use.push_back(index.gaps()[g].to % index.moments());
  }
  const auto sooner = [&](size_t a, size_t b) { return use[a] < use[b]; };
  // As a rule they are sorted already, except where the next step's uses begin.
  const auto next_step =
      std::is_sorted_until(order.begin(), order.end(), sooner);
  if (std::is_sorted(next_step, order.end(), sooner)) {
    std::inplace_merge(order.begin(), next_step, order.end(), sooner);
  } else {
    std::stable_sort(order.begin(), order.end(), sooner);
  }
  return order;
}

int64_t ClampToGap(const Gap& gap, int64_t moment) {
  return std::clamp(moment, gap.ready, gap.to);
}

}  // namespace

std::vector<int64_t> FetchesByNeed(const UseIndex& index,
                                   const Residency& residency) {
  std::vector<int64_t> fetches;
  for (const int64_t g : index.gaps_by_need()) {
    if (!residency[g].stays) fetches.push_back(g);
  }
  return fetches;
}

std::vector<int64_t> DueMoments(const UseIndex& index, const BusModel& bus,
                                double strength,
                                const std::vector<int64_t>& fetches) {
  const int64_t moments = index.moments();
  const int64_t period = index.StartNs(moments);
  // Copies are in the order of use within one step. Those of the next step,
  // which is the same one, push those at this one's end to earlier times, so
  // the first of two passes goes over the next step.
  const std::vector<size_t> order = OrderOfUse(index, fetches);
  std::vector<int64_t> due(fetches.size());
  int64_t bus_free_ns = std::numeric_limits<int64_t>::max();
  for (int lap = 1; lap >= 0; --lap) {
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
      const Gap& gap = index.gaps()[fetches[*i]];
      // Convert from the gap's own step to the pass.
      const int64_t shift = lap * period - (gap.to >= moments ? period : 0);
      const int64_t end = std::min(index.StartNs(gap.to) + shift, bus_free_ns);
      int64_t start = end - CopyNs(gap, bus, strength);
      start = std::max(start, index.StartNs(gap.ready) + shift);
      bus_free_ns = start;
      if (lap == 0) {
        due[*i] = ClampToGap(
            gap, index.MomentAt(std::max<int64_t>(0, start - shift)));
      }
    }
  }
  return due;
}

std::vector<int64_t> LoneDueMoments(const UseIndex& index, const BusModel& bus,
                                    double strength) {
  std::vector<int64_t> due;
  due.reserve(index.gaps().size());
  for (const Gap& gap : index.gaps()) {
    const int64_t start = index.StartNs(gap.to) - CopyNs(gap, bus, strength);
    due.push_back(ClampToGap(gap, index.MomentAt(std::max<int64_t>(0, start))));
  }
  return due;
}

std::vector<int64_t> EarliestMoments(const UseIndex& index,
                                     const std::vector<int64_t>& fetches,
                                     int64_t ahead) {
  const size_t most = static_cast<size_t>(ahead);
  std::vector<int64_t> earliest(fetches.size(), 0);
  if (ahead == 0 || fetches.size() <= most) return earliest;
  const std::vector<size_t> order = OrderOfUse(index, fetches);
  for (size_t i = 0; i < order.size(); ++i) {
    // Find the use of the fetch `ahead` places before it; for the first ones it
    // is in the step before.
    const bool step_before = i < most;
    const size_t other =
        order[step_before ? i + order.size() - most : i - most];
    const int64_t to = index.gaps()[fetches[order[i]]].to;
    const int64_t before = index.gaps()[fetches[other]].to % index.moments() -
                           (step_before ? index.moments() : 0);
    earliest[order[i]] = to - to % index.moments() + before;
  }
  return earliest;
}

double CopyBackNs(const BusModel& bus, int64_t bytes) {
  return static_cast<double>(bus.latency_ns) +
         static_cast<double>(bytes) * 1e9 / bus.d2h_bytes_per_s;
}

void TakeUntilCopiedBack(const UseIndex& index, const BusModel& bus,
                         const Residency& residency, Room& room) {
  // The first of two passes finds the copies that the step before left in the
  // queue.
  int64_t bus_free_ns = 0;
  for (const bool take : {false, true}) {
    for (const int64_t g : index.gaps_by_begin()) {
      const Gap& gap = index.gaps()[g];
      if (residency[g].stays || !gap.dirty) continue;
      const int64_t from = gap.from + 1;
      bus_free_ns = std::max(index.StartNs(from), bus_free_ns) +
                    static_cast<int64_t>(CopyBackNs(bus, gap.home_bytes));
      if (!take) continue;
      const int64_t end =
          std::min({index.MomentAt(bus_free_ns) + 1, residency[g].fetch_at,
                    from + index.moments()});
      if (end <= from || room.Min(from, end) < gap.bytes) continue;
      room.Take(from, end, gap.bytes);
    }
    bus_free_ns =
        std::max<int64_t>(0, bus_free_ns - index.StartNs(index.moments()));
  }
}

void MoveFetchesUp(const UseIndex& index, const std::vector<int64_t>& fetches,
                   const std::vector<int64_t>& earliest, Room& room,
                   Residency& residency) {
  for (size_t i = 0; i < fetches.size(); ++i) {
    const Gap& gap = index.gaps()[fetches[i]];
    GapChoice& choice = residency[fetches[i]];
    const int64_t to = choice.fetch_at;
    const int64_t from = std::max(gap.ready, earliest[i]);
    if (from >= to) continue;
    choice.fetch_at = room.EarliestStart(from, to, gap.bytes);
    room.Take(choice.fetch_at, to, gap.bytes);
  }
}

}  // namespace castor
