// Chooses the updates on the host that run before the gradients' norm is known
// (plan.h: speculative updates, banks).
//
// The host updates chunks in the order in which the next step needs them, and
// gets gradients in the reverse order. So the chunks whose gradients are
// complete first are updated ahead, while backward goes on: when the norm is
// known the host has updated the chunks that the next forward comes to last,
// and the others follow. The simulator decides how many pay: with one too many
// the norm, which is behind them in the host's queue, is late.
#ifndef CASTOR_MEMORY_PLAN_PLANNER_SPECULATION_H_
#define CASTOR_MEMORY_PLAN_PLANNER_SPECULATION_H_

#include <cstdint>

#include "memory/plan/plan.h"

namespace castor {

// Adds speculative updates to a plan that is valid without any: the fewest that
// save nearly the most time, within the request's limits. Changes nothing else
// in the plan. Does nothing where they save too little, where updates need not
// wait for a norm, or where the request allows none.
void SpeculateWhereItPays(const PlanRequest& request, Plan* plan);

// Returns the plan without its speculative updates, as it is while none runs.
Plan WithoutSpeculation(Plan plan);

int64_t NumSpeculativeUpdates(const Plan& plan);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_PLANNER_SPECULATION_H_
