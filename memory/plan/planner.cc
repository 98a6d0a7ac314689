#include "memory/plan/planner.h"

#include <cstdio>

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

}  // namespace

PlanOrRefusal MakePlan(PlacementPolicy policy, const PlanRequest& request) {
  const Admission admission = Admit(policy, request);
  if (admission.refusal.has_value()) return *admission.refusal;
  Plan plan = PlanAdmitted(policy, request, admission);
  const absl::Status proof = CheckPlan(plan, request);
  if (!proof.ok()) {
    std::fprintf(stderr, "%s\n", proof.ToString().c_str());
    CASTOR_CHECK(proof.ok());
  }
  return plan;
}

int64_t SmallestDeviceBudget(PlacementPolicy policy,
                             const PlanRequest& request) {
  return Admit(policy, request).smallest_device_budget_bytes;
}

}  // namespace castor
