#include "memory/plan/planner/planner.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "memory/plan/bounds/admission.h"
#include "memory/plan/check/plan_checker.h"
#include "memory/plan/planner/speculation.h"
#include "memory/plan/policy/schedules.h"

namespace castor {
namespace {

// Try first with fetches ahead, then without any: a simpler plan has fewer ways
// to fail its proof.
Plan PlanInstead(const PlacementPolicy* policy, PlanRequest request,
                 const Admission& admission, const absl::Status& why) {
  absl::Status proof = why;
  for (const bool prefetch : {true, false}) {
    if (prefetch && !request.prefetch) continue;
    request.prefetch = prefetch;
    Plan plan =
        PlanOneOperatorAhead(request, AdmittedSides(request, admission));
    plan.policy = policy;
    proof = CheckPlan(plan, request);
    if (!proof.ok()) continue;
    plan.instead_of_unproven = std::string(why.message());
    return plan;
  }
  std::fprintf(stderr, "%s\n", proof.ToString().c_str());
  CASTOR_CHECK(false);
}

}  // namespace

PlanOrRefusal MakePlan(const PlacementPolicy* policy,
                       const PlanRequest& request, const PlanMistake& mistake) {
  const Admission admission = Admit(policy->admission, request);
  if (admission.refusal.has_value()) return *admission.refusal;
  Plan plan = policy->plan(request, admission);
  SpeculateWhereItPays(request, &plan);
  plan.policy = policy;
  if (mistake) mistake(&plan);
  const absl::Status proof = CheckPlan(plan, request);
  if (proof.ok()) return plan;
  return PlanInstead(policy, request, admission, proof);
}

std::optional<Plan> SketchPlan(const PlacementPolicy* policy,
                               const PlanRequest& request) {
  const Admission admission = Admit(policy->admission, request);
  if (admission.refusal.has_value()) return std::nullopt;
  Plan plan = policy->sketch(request, admission);
  SpeculateWhereItPays(request, &plan);
  plan.policy = policy;
  return plan;
}

int64_t SmallestDeviceBudget(const PlacementPolicy* policy,
                             const PlanRequest& request) {
  return Admit(policy->admission, request).smallest_device_budget_bytes;
}

const PlacementPolicy* WarmUpPolicy(const PlacementPolicy* policy,
                                    const PlanRequest& request) {
  if (policy->warm_up.empty()) return policy;
  const PlacementPolicy* careful = FindPolicy(policy->warm_up);
  CASTOR_CHECK(careful != nullptr);
  return SmallestDeviceBudget(careful, request) <= request.device_budget_bytes
             ? careful
             : policy;
}

}  // namespace castor
