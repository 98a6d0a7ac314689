// What a plan will cost: the steps laid out on a discrete clock.
//
// Four resources run side by side, each one after the other in itself: compute,
// the two directions of the bus, and the host's compute (reduce, update). An
// operator starts when the one before it is over and its chunks have arrived; a
// fetch when the bus is free, its home is valid and the room it takes is free;
// and so on: the same rules by which the executor's fences work. Beside them:
//
//   norm   where gradients are clipped and a chunk is on the device's side, the
//          first update's turn gathers the sums of both sides: through the
//          queues of both directions of the bus and of the host, behind all
//          that is in them.
//   issue  a step is queued when the loss of the one before has come down the
//          bus, behind the copies back of its backward, and when all work of
//          the one before that is over.
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

// What no plan says, known only of steps that ran: where the holes between the
// blocks were too small, blocks moved together on the compute stream.
struct BlockMoves {
  int64_t duration_ns = 0;
  // They waited for these copies, where these were still under way.
  std::vector<ChunkId> after_fetches = {};
  std::vector<ChunkId> after_copies_back = {};
};

// `plan` must have passed CheckPlan. `moves`: before each operator, indexed by
// Moment; empty: none anywhere.
PlanCost SimulatePlan(const Plan& plan, const PlanRequest& request,
                      const std::vector<BlockMoves>& moves = {});

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATOR_H_
