// Makes a proven plan from a trace, budgets and a bus, by any of the placement
// policies (memory/plan/policy/policies.h).
//
// Plans are a pure function: the same request gives the same plan. cpu and auto
// have the same smallest budget: the worst moment's non-model bytes plus the
// chunks that its operator uses.
#ifndef CASTOR_MEMORY_PLAN_PLANNER_PLANNER_H_
#define CASTOR_MEMORY_PLAN_PLANNER_PLANNER_H_

#include <functional>
#include <optional>
#include <variant>

#include "memory/plan/plan.h"
#include "memory/plan/policy/policies.h"

namespace castor {

using PlanOrRefusal = std::variant<Plan, Refusal>;

// Changes a policy's plan before its proof, as a planner's mistake would; for
// tests.
using PlanMistake = std::function<void(Plan*)>;

// Returns the plan of `policy`, proven by CheckPlan, or the reason why none
// exists. A policy's plan that fails its proof is a bug of Castor, but does not
// end the run: the one-operator-ahead plan takes its place, is proven in turn,
// and says so (Plan::instead_of_unproven).
PlanOrRefusal MakePlan(const PlacementPolicy* policy,
                       const PlanRequest& request,
                       const PlanMistake& mistake = nullptr);

// Returns a plan that is found with less effort than MakePlan's and is not
// proven, to compare requests by; absent where there is none. `policy` must
// have a sketch.
std::optional<Plan> SketchPlan(const PlacementPolicy* policy,
                               const PlanRequest& request);

// Returns the least device budget for which MakePlan(policy, ...) gives a plan,
// with all else as in the request.
int64_t SmallestDeviceBudget(const PlacementPolicy* policy,
                             const PlanRequest& request);

// Returns the policy whose plan is followed while durations are measured: the
// one that the row of `policy` names, or `policy` where that one does not fit
// `request`, such as when the host has no room for all optimizer states.
const PlacementPolicy* WarmUpPolicy(const PlacementPolicy* policy,
                                    const PlanRequest& request);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_PLANNER_PLANNER_H_
