#include "research/patrickstar_policy.h"

#include <algorithm>

#include "memory/plan/policy/schedules.h"
#include "memory/plan/residency/eviction.h"
#include "memory/plan/residency/residency.h"
#include "memory/plan/residency/use_index.h"
#include "research/baseline_search.h"

namespace castor {

int64_t PatrickStarMarginBytes(const PlanRequest& request) {
  int64_t non_model = 0;
  for (const OpRecord& op : request.trace->ops) {
    non_model = std::max(non_model, op.non_model_peak_bytes);
  }
  int64_t margin =
      request.device_budget_bytes - request.device_reserved_bytes - non_model;
  for (const ChunkInfo& chunk : request.trace->chunks) {
    margin -= PayloadBlock(chunk);
  }
  return margin;
}

Plan PlanPatrickStarWith(const PlanRequest& request,
                         const std::vector<Side>& side) {
  const UseIndex index(*request.trace, side);
  std::vector<int64_t> next_use;
  for (const Gap& gap : index.gaps()) next_use.push_back(gap.to);
  Residency residency = StayEverywhere(index);
  Evict(index, FreeBesideNeeds(request, side), next_use, VictimRule::kFarthest,
        residency);
  return WritePlan(request, side, index, residency);
}

Plan PlanPatrickStar(const PlanRequest& request, const Admission& admission) {
  const int64_t margin = std::max<int64_t>(0, PatrickStarMarginBytes(request));
  FastestPlan fastest(request);
  for (const std::vector<Side>& side : FirstSidesUpTo(
           request, admission,
           request.gpu_margin_mem_ratio * static_cast<double>(margin),
           /*steps=*/8)) {
    fastest.Enter(PlanPatrickStarWith(request, side));
  }
  return fastest.plan();
}

}  // namespace castor
