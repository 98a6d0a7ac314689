// Simulates a plan's actions.
#ifndef CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_ACTIONS_H_
#define CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_ACTIONS_H_

#include <cstdint>

#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulated_state.h"

namespace castor {

// Returns PlanCost::action_ns of the next action, on the simulator's clock.
int64_t ActionNs(const SimulatedState& state, const Action& action);

// Queues the action's work; takes and gives back its blocks.
void DoAction(SimulatedState& state, const Action& action);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_ACTIONS_H_
