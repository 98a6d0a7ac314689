// Addresses for a plan: all blocks of its step, with when they are made and
// freed (step_blocks.h), packed into the device's budget (packing.h).
//
// A block that is freed before another one is made may share bytes with it. The
// other one's first use waits for the first one's last, by its fence.
//
// The use of what an action frees, a chunk's block or activations that leave,
// is not over then: its copy is under way, or operators that use it are queued.
// Whoever took its place before that is over would wait. So such a block keeps
// its place for longer, until the blocks are made of which the simulator
// foresees that they would not have to wait, as far as there is room for that.
//
// Blocks of parameters, gradients and sums are packed from the low end, those
// of activations and workspaces from the high end. Evaluations have no
// addresses: chunks would have to leave for them, and come again.
#ifndef CASTOR_MEMORY_PLAN_ADDRESSES_H_
#define CASTOR_MEMORY_PLAN_ADDRESSES_H_

#include <functional>
#include <optional>

#include "memory/plan/plan.h"
#include "memory/plan/planner.h"
#include "memory/plan/simulator.h"

namespace castor {

// The addresses that `plan` can have: absent where the trace does not say when
// tensors are made and freed (memory/plan/step_blocks.h), or where no packing
// within the budget was found. A pure function. `plan` must have passed
// CheckPlan for `request`, and `cost` is what SimulatePlan says of it.
std::optional<Addresses> FindAddresses(const Plan& plan,
                                       const PlanRequest& request,
                                       const PlanCost& cost);

// Gives the plan the addresses that were found and proven, if there are any.
void PlanAddresses(const PlanRequest& request, const PlanCost& cost,
                   Plan* plan);

// What is foreseen of a plan, with all of its actions.
using Foresee = std::function<PlanCost(const Plan& plan)>;

// `plan`, which MakePlan gave for `request`, with addresses. Where it fills the
// budget so that none are found, the first plan for a 64th, a 32nd or a 16th
// less, but not less than the smallest budget, that has some within the whole
// budget, if by what is foreseen its step is at most 2 % longer: moves and
// waits, which are not foreseen, are worth more. Otherwise `plan` as it is.
// `mistake` as in MakePlan. A pure function, if `foresee` is.
Plan WithAddresses(Plan plan, const PlanRequest& request,
                   const Foresee& foresee,
                   const PlanMistake& mistake = nullptr);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_ADDRESSES_H_
