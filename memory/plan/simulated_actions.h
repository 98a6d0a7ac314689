// What a plan's actions do in a simulated step.
#ifndef CASTOR_MEMORY_PLAN_SIMULATED_ACTIONS_H_
#define CASTOR_MEMORY_PLAN_SIMULATED_ACTIONS_H_

#include <cstdint>

#include "memory/plan/plan.h"
#include "memory/plan/simulated_state.h"

namespace castor {

// PlanCost::action_ns, on the simulator's clock, of an action that comes next.
int64_t ActionNs(const SimulatedState& state, const Action& action);

// Queues the action's work, takes and gives back its blocks.
void DoAction(SimulatedState& state, const Action& action);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATED_ACTIONS_H_
