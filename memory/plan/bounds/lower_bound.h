// Lower bounds on the bytes that any plan moves, to measure plans against.
#ifndef CASTOR_MEMORY_PLAN_BOUNDS_LOWER_BOUND_H_
#define CASTOR_MEMORY_PLAN_BOUNDS_LOWER_BOUND_H_

#include <cstdint>
#include <vector>

#include "memory/plan/plan.h"

namespace castor {

struct TrafficBound {
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
};

// Returns the bound for one micro batch with all optimizer states on the host.
// Forward uses and backward writes P payload bytes, of which at most K can stay
// on the device from the end of forward to the start of backward:
//
//   h2d >= P + max(0, P - K)    updated parameters for forward; what did not
//                               stay again for backward
//   d2h >= P                    gradients
//
// K is what the budget leaves beside the larger of the non-model peaks of the
// last operator of forward and the first one of backward. Zero for evaluation.
TrafficBound OneMicroBatchBound(const PlanRequest& request);

// Returns the bound for any number A of micro batches, wherever optimizer
// states and sums of gradients are. For x payload bytes the states are on the
// device, r bytes for each; for y of the other payload bytes the sums of
// gradients are there until the last micro batch, s bytes for each:
//
//   h2d >= P - x + max(0, P + r x - K) + (A - 1) (max(0, P + r x + s y - K)
//          + max(0, P + r x + s y - K'))
//   d2h >= A (P - x - y) + min(A, s) y
//
// K' is what the budget leaves beside the peak of a micro batch's first
// operator. The bound returned is that of the x and y for which h2d + d2h is
// the least: no plan moves fewer bytes in all. `sum_ratio` is s: the bytes of
// an fp32 value over those of a payload's.
TrafficBound AccumulationBound(const PlanRequest& request, double sum_ratio);

// Returns a time in ns that no plan's step is shorter than, wherever optimizer
// states are, by the trace's durations: the longest of
//  - `compute_ns`, the operators of the model that every plan of it runs,
//  - the updates of those states for which the device has no room,
//  - on one rank the bytes of AccumulationBound, in both directions at once,
//  - on several ranks the payloads that each step changes, which a rank
//    gathers from the others once, and their gradients, which it gets once.
// 0 for evaluation. `sum_ratio` as above.
int64_t LeastStepNs(const PlanRequest& request, double sum_ratio,
                    int64_t compute_ns);

// Returns a lower bound on the bytes that any cyclic plan with these sides
// fetches per step, for any trace. It relaxes the problem: each byte of a chunk
// may stay or leave by itself, blocks are not rounded up, and neither early
// fetches nor gradient blocks take room.
//
// The gaps (memory/plan/residency/use_index.h) then are bundles of unit
// intervals of equal worth. The most of them that fit into the room remain if
// at each overfull moment those that end last are removed: by exchange, any
// other choice at that moment can be replaced by this one without making a
// later moment fuller (Faigle and Nawijn, Discrete Applied Mathematics 58,
// 1995; for one page size it is Belady's rule). Gaps over the end of a step
// make the timeline a circle, for which the argument fails. So some steps are
// laid out in a row, intervals that reach in from outside cost nothing, and the
// sum is divided by the number of steps. A plan repeated that often is one
// choice in the row.
//
// O(steps in the row * (T + gaps log gaps)).
int64_t LeastFetchedBytes(const PlanRequest& request,
                          const std::vector<Side>& side);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BOUNDS_LOWER_BOUND_H_
