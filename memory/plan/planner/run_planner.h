// Decides whether a run fits: its steps of training, and the evaluations
// between them.
//
// Used by the trainer and `castor plan`, which have a model, and by `castor
// replay`, which has the trace of a run. RefusalStatus in
// run/refusal_status.h words a refusal for the user.
#ifndef CASTOR_MEMORY_PLAN_PLANNER_RUN_PLANNER_H_
#define CASTOR_MEMORY_PLAN_PLANNER_RUN_PLANNER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/plan.h"
#include "memory/plan/policy/policies.h"

namespace castor {

// The requests of a run, on the budgets of `training`.
struct RunRequest {
  PlanRequest training;
  // Training steps of other shapes.
  std::vector<PlanRequest> other_training = {};
  // Their own budgets and sides are ignored: an evaluation has the budgets of
  // training, and is admitted if it fits with SafeSides.
  std::vector<PlanRequest> evaluations = {};
};

// Returns the requests of a run under a policy with that rule: reserved bytes
// may depend on where the policy can have optimizer states.
using RunRequestFor = std::function<RunRequest(const AdmissionRule& rule)>;

// Returns the smallest device budget in which training and every evaluation
// fit, with all else as in `run`; kUnlimitedBytes if there is none.
int64_t SmallestRunBudget(const AdmissionRule& rule, const RunRequest& run);

bool FitsRun(const AdmissionRule& rule, const RunRequest& run);

struct RunBudgets {
  int64_t smallest = 0;    // SmallestRunBudget
  int64_t everything = 0;  // with everything on the device
  // Returns the budget of a run without a limit: the bytes that everything
  // takes, or more where gpu_margin_mem_ratio admits only a part of the free
  // bytes for optimizer states that the host has no room for.
  int64_t unlimited() const;
};
RunBudgets FindRunBudgets(const AdmissionRule& rule,
                          const RunRequestFor& request_for);

struct RefusedStep {
  // Its smallest device budget is the whole run's, if any budget would fit.
  Refusal refusal;
  // The request of the refused step, of training or of an evaluation.
  PlanRequest request;
};

// Returns the first step that does not fit, training before evaluations; absent
// if all of them have plans.
std::optional<RefusedStep> RefuseRun(const AdmissionRule& rule,
                                     const RunRequest& run);

// Returns the other policy under which the run would fit, as a setting:
// nothing, or "memory.placement_policy \"auto\"". `fits` returns true if the
// run fits under a policy.
std::vector<std::string> PolicyRemedies(
    const PlacementPolicy* policy,
    const std::function<bool(const PlacementPolicy*)>& fits);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_PLANNER_RUN_PLANNER_H_
