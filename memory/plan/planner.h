// From a trace, budgets and a bus to a plan: the placement policies.
//
// Policies are pure functions: the same request gives the same plan.
//
//   cuda   everything on the device, always. No action in the steady state.
//   cpu    payloads and optimizer states at home on the host; on the device
//   only
//          what the operator at hand uses, and with `prefetch` what the
//          next one needs, where there is room.
//   auto   farthest next use decides what leaves; fetches are issued as early
//          as room allows; what is left of the budget holds optimizer states.
//
// cpu and auto have the same smallest budget: the worst moment's non-model
// bytes plus the chunks that its operator uses.
#ifndef CASTOR_MEMORY_PLAN_PLANNER_H_
#define CASTOR_MEMORY_PLAN_PLANNER_H_

#include <functional>
#include <variant>

#include "memory/plan/plan.h"

namespace castor {

using PlanOrRefusal = std::variant<Plan, Refusal>;

// Changes a policy's plan before its proof, as a planner's mistake would: tests.
using PlanMistake = std::function<void(Plan*)>;

// The plan of `policy`, proven by CheckPlan, or the reason why none exists. A
// policy's plan that fails its proof is our mistake, not the end of the run:
// the one-operator-ahead plan takes its place, is proven in turn, and says so
// (Plan::instead_of_unproven).
PlanOrRefusal MakePlan(PlacementPolicy policy, const PlanRequest& request,
                       const PlanMistake& mistake = nullptr);

// The least device budget for which MakePlan(policy, ...) gives a plan, with
// all else as in the request.
int64_t SmallestDeviceBudget(PlacementPolicy policy,
                             const PlanRequest& request);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_PLANNER_H_
