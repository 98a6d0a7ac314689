// What a plan will cost: the steps laid out on a discrete clock.
//
// Three resources run side by side, each one after the other in itself:
// compute, the two directions of the bus, and the host's compute (reduce,
// update). An operator starts when the one before it is over and its chunks
// have arrived; a fetch when the bus is free, its home is valid and the room it
// takes is free; and so on: the same rules by which the executor's fences work.
#ifndef CASTOR_MEMORY_PLAN_SIMULATOR_H_
#define CASTOR_MEMORY_PLAN_SIMULATOR_H_

#include <cstdint>
#include <vector>

#include "memory/plan/plan.h"

namespace castor {

struct PlanCost {
  int64_t step_ns = 0;   // steady state, from one step's start to the next's
  int64_t stall_ns = 0;  // compute waiting for copies or for the host
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
  int64_t device_peak_bytes = 0;
  int64_t host_bytes = 0;
  // Indexed by Moment, in the steady state: when each operator starts, from the
  // start of the first one, never falling (of what the host runs: when the
  // device has come to it), and the device bytes in use while it runs.
  std::vector<int64_t> op_start_ns;
  std::vector<int64_t> device_bytes;
};

// `plan` must have passed CheckPlan.
PlanCost SimulatePlan(const Plan& plan, const PlanRequest& request);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATOR_H_
