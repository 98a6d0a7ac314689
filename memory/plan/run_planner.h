// Whether a run fits: its steps of training, and the evaluations between them.
//
// The trainer and `castor plan`, which have a model, and `castor replay`, which
// has the trace of a run, decide it here. What they say to the user about a
// refusal is RefusalStatus in runtime/managed/refusal_status.h.
#ifndef CASTOR_MEMORY_PLAN_RUN_PLANNER_H_
#define CASTOR_MEMORY_PLAN_RUN_PLANNER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memory/plan/admission.h"
#include "memory/plan/plan.h"
#include "memory/plan/policy/policies.h"

namespace castor {

// What a run asks for, on the budgets of `training`.
struct RunRequest {
  PlanRequest training;
  // Their budgets and sides do not count: an evaluation has the budgets of
  // training, and is admitted if it fits with SafeSides.
  std::vector<PlanRequest> evaluations = {};
};

// What a run asks for under a policy with that rule: how much it has to reserve
// may depend on where the policy can have optimizer states.
using RunRequestFor = std::function<RunRequest(const AdmissionRule& rule)>;

// The least device budget that fits training and every evaluation, with all
// else as in `run`; kUnlimitedBytes where none does.
int64_t SmallestRunBudget(const AdmissionRule& rule, const RunRequest& run);

bool FitsRun(const AdmissionRule& rule, const RunRequest& run);

struct RunBudgets {
  int64_t smallest = 0;    // SmallestRunBudget
  int64_t everything = 0;  // with everything on the device
  // The budget of a run that was given no limit: as much as everything takes,
  // or more where only a part of it may hold the optimizer states that the host
  // has no room for.
  int64_t unlimited() const;
};
RunBudgets FindRunBudgets(const AdmissionRule& rule,
                          const RunRequestFor& request_for);

struct RefusedStep {
  // Its smallest device budget is the whole run's, if there is one that would
  // do.
  Refusal refusal;
  // What the refused step asks for: that of training or of an evaluation.
  PlanRequest request;
};

// The first step that does not fit, training before evaluations. Absent: each
// of them has a plan.
std::optional<RefusedStep> RefuseRun(const AdmissionRule& rule,
                                     const RunRequest& run);

// The other policy that would let the run fit, as a setting: nothing, or
// "memory.placement_policy \"auto\"". `fits` says whether the run fits under a
// policy.
std::vector<std::string> PolicyRemedies(
    const PlacementPolicy* policy,
    const std::function<bool(const PlacementPolicy*)>& fits);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_RUN_PLANNER_H_
