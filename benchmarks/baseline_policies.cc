#include "benchmarks/baseline_policies.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "memory/plan/eviction.h"
#include "memory/plan/policy/schedules.h"
#include "memory/plan/prefetch.h"
#include "memory/plan/residency.h"
#include "memory/plan/room.h"
#include "memory/plan/simulator.h"
#include "memory/plan/use_index.h"

namespace castor {
namespace {

// As many chunks of the order as may have their states in `bytes`.
std::vector<Side> FirstSides(const PlanRequest& request,
                             const Admission& admission, double bytes) {
  if (!request.trace->training || !request.fixed_side.empty()) {
    return AdmittedSides(request, admission);
  }
  int64_t count = 0;
  for (const int64_t c : admission.order) {
    bytes -= static_cast<double>(OptimizerBlock(request.trace->chunks[c]));
    if (bytes < 0) break;
    ++count;
  }
  count = std::max(count, admission.fewest);
  std::vector<Side> side = SidesOf(*request.trace, admission.order, count);
  return PeakNeededDeviceBytes(request, side) <= request.device_budget_bytes
             ? side
             : AdmittedSides(request, admission);
}

Plan PlanGemini(const PlanRequest& request, const Admission& admission) {
  const std::vector<Side> side = AdmittedSides(request, admission);
  const UseIndex index(*request.trace, side);
  std::vector<int64_t> free_bytes = FreeBesideNeeds(request, side);
  for (int64_t& bytes : free_bytes) {
    bytes = std::max<int64_t>(0, bytes - request.device_budget_bytes / 10);
  }
  std::vector<int64_t> next_use;
  for (const Gap& gap : index.gaps()) {
    next_use.push_back(
        std::max(gap.from + 1, std::min(gap.to, index.moments())));
  }
  Residency residency = StayEverywhere(index);
  Evict(index, free_bytes, next_use, VictimRule::kFarthest, residency);
  return WritePlan(request, side, index, residency);
}

Plan PlanPatrickStar(const PlanRequest& request, const Admission& admission) {
  const std::vector<int64_t> left =
      FreeBesideNeeds(request, AdmittedSides(request, admission));
  const double margin =
      left.empty()
          ? 0
          : static_cast<double>(*std::min_element(left.begin(), left.end()));
  const std::vector<Side> side =
      FirstSides(request, admission, request.gpu_margin_mem_ratio * margin);
  const UseIndex index(*request.trace, side);
  std::vector<int64_t> next_use;
  for (const Gap& gap : index.gaps()) next_use.push_back(gap.to);
  Residency residency = StayEverywhere(index);
  Evict(index, FreeBesideNeeds(request, side), next_use, VictimRule::kFarthest,
        residency);
  return WritePlan(request, side, index, residency);
}

// With persistent chunks on the device's side and `buffers` bytes for others.
Plan PlanWithBuffers(const PlanRequest& request, const std::vector<Side>& side,
                     double buffers) {
  const UseIndex index(*request.trace, side);
  Room room(FreeBesideNeeds(request, side));
  Residency residency = StayEverywhere(index);
  // First those that persist, as far as there is room.
  for (const bool persistent : {true, false}) {
    for (size_t g = 0; g < residency.size(); ++g) {
      const Gap& gap = index.gaps()[g];
      if ((side[gap.chunk] == Side::kDevice) != persistent || gap.forced()) {
        continue;
      }
      // A buffer keeps what the next operators use again.
      const bool stays = (persistent || gap.to - gap.from <= 2) &&
                         room.Min(gap.from + 1, gap.to) >= gap.bytes;
      if (stays) room.Take(gap.from + 1, gap.to, gap.bytes);
      residency[g] = {stays, gap.to, stays ? -1 : gap.from + 1};
    }
  }
  if (request.prefetch) {
    std::vector<int64_t> left = room.Values();
    for (int64_t& bytes : left) {
      bytes =
          static_cast<int64_t>(std::min(static_cast<double>(bytes), buffers));
    }
    Room in_buffers(std::move(left));
    const std::vector<int64_t> fetches = FetchesByNeed(index, residency);
    MoveFetchesUp(index, fetches, std::vector<int64_t>(fetches.size(), 0),
                  in_buffers, residency);
  }
  return WritePlan(request, side, index, residency);
}

Plan PlanProTrain(const PlanRequest& request, const Admission& admission) {
  const double margin = static_cast<double>(
      request.device_budget_bytes -
      PeakNeededDeviceBytes(request, AdmittedSides(request, admission)));
  int64_t largest = 0;
  for (const ChunkInfo& chunk : request.trace->chunks) {
    largest = std::max(largest, PayloadBlock(chunk));
  }
  Plan best;
  int64_t best_ns = std::numeric_limits<int64_t>::max();
  for (int i = 0; i <= 8; ++i) {
    const std::vector<Side> side =
        FirstSides(request, admission, margin * i / 8);
    for (const int buffers : {1, 2, 4, 8, 16}) {
      Plan plan = PlanWithBuffers(request, side,
                                  static_cast<double>(largest) * buffers);
      const int64_t step_ns = SimulatePlan(plan, request).step_ns;
      if (step_ns >= best_ns) continue;
      best_ns = step_ns;
      best = std::move(plan);
    }
  }
  return best;
}

constexpr PlacementPolicy kBaselines[] = {
    {.name = "gemini",
     .in_configurations = false,
     .letter = 'G',
     .admission = {.sides = SideChoice::kHost},
     .plan = PlanGemini,
     .warm_up = "cpu"},
    {.name = "patrickstar",
     .in_configurations = false,
     .letter = 'P',
     .admission = {.sides = SideChoice::kChosen},
     .plan = PlanPatrickStar,
     .warm_up = "cpu"},
    {.name = "protrain",
     .in_configurations = false,
     .letter = 'T',
     .admission = {.sides = SideChoice::kChosen},
     .plan = PlanProTrain,
     .warm_up = "cpu"},
};

}  // namespace

absl::Span<const PlacementPolicy> BaselinePolicies() { return kBaselines; }

}  // namespace castor
