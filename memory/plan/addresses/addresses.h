// Finds addresses for a plan: packs all blocks of its step, which are made and
// freed at known times (step_blocks.h), into the device's budget (packing.h).
//
// A block that is freed before another one is made may share bytes with it. The
// later one's first use waits, by a fence, for the earlier one's last.
//
// When an action frees a block (of a chunk, or of activations that leave), the
// block is still in use: a copy is under way, or operators are queued. A block
// that took its place at once would wait. So the freed block keeps its place,
// as far as there is room, until blocks are made that by the simulator's
// forecast need not wait.
//
// Blocks of parameters, gradients and sums are packed from the low end, those
// of activations and workspaces from the high end. Evaluations have no
// addresses: chunks would have to leave for them, and come again.
#ifndef CASTOR_MEMORY_PLAN_ADDRESSES_ADDRESSES_H_
#define CASTOR_MEMORY_PLAN_ADDRESSES_ADDRESSES_H_

#include <functional>
#include <optional>

#include "memory/plan/plan.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

// Returns addresses for `plan`; absent where the trace does not say when
// tensors are made and freed (memory/plan/simulate/step_blocks.h), or where no
// packing within the budget was found. A pure function. `plan` must have passed
// CheckPlan for `request`, and `cost` is what SimulatePlan says of it.
std::optional<Addresses> FindAddresses(const Plan& plan,
                                       const PlanRequest& request,
                                       const PlanCost& cost);

// Gives the plan the addresses that were found and proven, if there are any.
void PlanAddresses(const PlanRequest& request, const PlanCost& cost,
                   Plan* plan);

// Forecasts the cost of a plan, with all of its actions.
using Foresee = std::function<PlanCost(const Plan& plan)>;

// Returns `plan`, which MakePlan gave for `request`, with addresses. Where none
// are found because the plan fills the budget, plans for a 64th, a 32nd and a
// 16th less are tried, though for no less than the smallest budget. The first
// of them that has addresses within the whole budget is returned, if its
// forecast step is at most 2 % longer: moves and waits, which are not forecast,
// cost more. Otherwise returns `plan` as it is. `mistake` as in MakePlan. A
// pure function, if `foresee` is.
Plan WithAddresses(Plan plan, const PlanRequest& request,
                   const Foresee& foresee,
                   const PlanMistake& mistake = nullptr);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_ADDRESSES_ADDRESSES_H_
