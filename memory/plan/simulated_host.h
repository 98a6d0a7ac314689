// What the host computes in a simulated step: it adds gradients up, squares
// what the device has added up, and updates, some chunks before their norm is
// known.
#ifndef CASTOR_MEMORY_PLAN_SIMULATED_HOST_H_
#define CASTOR_MEMORY_PLAN_SIMULATED_HOST_H_

#include <cstdint>

#include "memory/plan/simulated_state.h"

namespace castor {

// A reduce or an update of a chunk whose sum is the host's.
// `misses`: what was updated before the norm was known is updated again.
void RunOnHost(SimulatedState& state, const SimulatedTrace::Op& op,
               bool misses);

// The update of a chunk before the norm is known.
void UpdateAhead(SimulatedState& state, int64_t chunk);

// Adds up the squares of all sums that the device made and sent, for the norm.
void SquareSums(SimulatedState& state);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATED_HOST_H_
