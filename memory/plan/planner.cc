#include "memory/plan/planner.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "memory/plan/admission.h"
#include "memory/plan/plan_checker.h"
#include "memory/plan/policies.h"

namespace castor {
namespace {

Plan PlanAdmitted(PlacementPolicy policy, const PlanRequest& request,
                  const Admission& admission) {
  switch (policy) {
    case PlacementPolicy::kCuda:
      return PlanCuda(request, admission);
    case PlacementPolicy::kCpu:
      return PlanCpu(request, admission);
    case PlacementPolicy::kAuto:
      return PlanAuto(request, admission);
  }
  CASTOR_CHECK(false);
}

// Optimizer states as the policy must have them at the least: what was admitted
// fits with these sides.
std::vector<Side> AdmittedSides(PlacementPolicy policy,
                                const PlanRequest& request,
                                const Admission& admission) {
  if (!request.fixed_side.empty()) return request.fixed_side;
  const int64_t count = policy == PlacementPolicy::kCuda
                            ? static_cast<int64_t>(admission.order.size())
                            : admission.fewest;
  return SidesOf(*request.trace, admission.order, count);
}

// First with fetches ahead, then without any: the simpler, the less can be
// wrong.
Plan PlanInstead(PlacementPolicy policy, PlanRequest request,
                 const Admission& admission, const absl::Status& why) {
  absl::Status proof = why;
  for (const bool prefetch : {true, false}) {
    if (prefetch && !request.prefetch) continue;
    request.prefetch = prefetch;
    Plan plan = PlanOneOperatorAhead(
        policy, request, AdmittedSides(policy, request, admission));
    proof = CheckPlan(plan, request);
    if (!proof.ok()) continue;
    plan.instead_of_unproven = std::string(why.message());
    return plan;
  }
  std::fprintf(stderr, "%s\n", proof.ToString().c_str());
  CASTOR_CHECK(false);
}

}  // namespace

PlanOrRefusal MakePlan(PlacementPolicy policy, const PlanRequest& request,
                       const PlanMistake& mistake) {
  const Admission admission = Admit(policy, request);
  if (admission.refusal.has_value()) return *admission.refusal;
  Plan plan = PlanAdmitted(policy, request, admission);
  if (mistake) mistake(&plan);
  const absl::Status proof = CheckPlan(plan, request);
  if (proof.ok()) return plan;
  return PlanInstead(policy, request, admission, proof);
}

int64_t SmallestDeviceBudget(PlacementPolicy policy,
                             const PlanRequest& request) {
  return Admit(policy, request).smallest_device_budget_bytes;
}

}  // namespace castor
