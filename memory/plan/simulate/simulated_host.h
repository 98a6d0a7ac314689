// Simulates the host's compute: it adds gradients up, squares the sums that the
// device made, and updates chunks, some before the norm is known.
#ifndef CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_HOST_H_
#define CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_HOST_H_

#include <cstdint>

#include "memory/plan/simulate/simulated_state.h"

namespace castor {

// Runs a reduce or an update of a chunk whose sum is the host's. With `misses`
// a chunk that was updated before the norm was known is updated again.
void RunOnHost(SimulatedState& state, const SimulatedTrace::Op& op,
               bool misses);

// Runs the update of a chunk before the norm is known.
void UpdateAhead(SimulatedState& state, int64_t chunk);

// Adds up the squares of all sums that the device made and sent, for the norm.
void SquareSums(SimulatedState& state);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_HOST_H_
