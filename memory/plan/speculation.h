// Which updates on the host run before the gradients' norm is known (plan.h:
// speculative updates, banks).
//
// The host updates in the order in which the next step needs chunks, and gets
// gradients in the reverse of it. So those that are whole first run ahead,
// while backward goes on: by the time of the norm the host has done those of
// which the next step's forward comes last to, and the others follow as ever.
// How many pays, the simulator says: one too many, and the norm, which comes
// behind them in the host's queue, is late.
#ifndef CASTOR_MEMORY_PLAN_SPECULATION_H_
#define CASTOR_MEMORY_PLAN_SPECULATION_H_

#include <cstdint>

#include "memory/plan/plan.h"

namespace castor {

// Adds speculative updates to a plan that is right without any: the fewest that
// save nearly as much as can be saved, within what the request lets them have.
// Nothing else in the plan changes. Does nothing where that saves too little,
// where updates need not wait for a norm, or where none may run before it.
void SpeculateWhereItPays(const PlanRequest& request, Plan* plan);

// The plan without its speculative updates: what it is while none of them runs.
Plan WithoutSpeculation(Plan plan);

int64_t NumSpeculativeUpdates(const Plan& plan);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SPECULATION_H_
