#include "research/baseline_search.h"

#include <algorithm>
#include <utility>

#include "memory/plan/policy/schedules.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

int64_t SimulatedStepNs(const Plan& plan, const PlanRequest& request) {
  const PlanCost cost = SimulatePlan(plan, request);
  return std::max(cost.step_ns, cost.busy_ns[static_cast<int>(cost.Busiest())]);
}

std::vector<Side> FirstSides(const PlanRequest& request,
                             const Admission& admission, double bytes) {
  std::vector<Side> admitted = AdmittedSides(request, admission);
  if (!request.trace->training || !request.fixed_side.empty()) return admitted;
  int64_t count = 0;
  for (const int64_t c : admission.order) {
    bytes -= static_cast<double>(OptimizerBlock(request.trace->chunks[c]));
    if (bytes < 0) break;
    ++count;
  }
  if (count <= admission.fewest) return admitted;
  std::vector<Side> side = SidesOf(*request.trace, admission.order, count);
  return PeakNeededDeviceBytes(request, side) <= request.device_budget_bytes
             ? side
             : admitted;
}

std::vector<std::vector<Side>> FirstSidesUpTo(const PlanRequest& request,
                                              const Admission& admission,
                                              double most_bytes, int steps) {
  std::vector<std::vector<Side>> all;
  for (int i = 0; i <= steps; ++i) {
    std::vector<Side> side =
        FirstSides(request, admission, most_bytes * i / steps);
    if (std::find(all.begin(), all.end(), side) == all.end()) {
      all.push_back(std::move(side));
    }
  }
  return all;
}

void FastestPlan::Enter(Plan plan) {
  const int64_t step_ns = SimulatedStepNs(plan, request_);
  if (step_ns >= step_ns_) return;
  step_ns_ = step_ns;
  plan_ = std::move(plan);
}

}  // namespace castor
