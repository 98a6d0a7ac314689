// Bytes that no plan can do without, to measure plans against.
#ifndef CASTOR_MEMORY_PLAN_LOWER_BOUND_H_
#define CASTOR_MEMORY_PLAN_LOWER_BOUND_H_

#include <cstdint>
#include <vector>

#include "memory/plan/plan.h"

namespace castor {

struct TrafficBound {
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
};

// One micro batch with all optimizer states on the host, P payload bytes that
// forward uses and backward writes, of which at most K can stay on the device
// over the turn from forward to backward:
//
//   h2d >= P + max(0, P - K)    updated parameters for forward; what did not
//                               stay again for backward
//   d2h >= P                    gradients
//
// K is what the budget leaves beside the larger of the non-model peaks of the
// last operator of forward and the first one of backward. Zero for evaluation.
TrafficBound OneMicroBatchBound(const PlanRequest& request);

// The same for any number A of micro batches, wherever optimizer states and
// sums of gradients are: x payload bytes have their states on the device, r
// bytes of them for each, and of the rest y bytes have the sums of their
// gradients there until the last micro batch, s bytes for each:
//
//   h2d >= P - x + max(0, P + r x - K) + (A - 1) (max(0, P + r x + s y - K)
//          + max(0, P + r x + s y - K'))
//   d2h >= A (P - x - y) + min(A, s) y
//
// K' is what the budget leaves beside the peak of a micro batch's first
// operator. The bound given is that of the x and y whose sum of both is the
// least: no plan moves fewer bytes in all. `sum_ratio` is s: the bytes of an
// fp32 value over those of a payload's.
TrafficBound AccumulationBound(const PlanRequest& request, double sum_ratio);

// Bytes per step that any cyclic plan with these sides has to fetch, for any
// trace. It relaxes what a plan is: bytes of a chunk may stay or leave one by
// one, blocks are not rounded up, fetches take no room before their use, and
// neither do blocks for gradients beside payloads.
//
// Then the gaps (memory/plan/use_index.h) are bundles of unit intervals, all of
// the same worth, and the most that fit into the room are those left when at
// each overfull moment the ones that end last are taken out: by exchange, any
// other choice at that moment can be replaced by this one without making a
// later moment fuller (Faigle and Nawijn, Discrete Applied Mathematics 58,
// 1995; for one page size it is Belady's rule). Gaps over the end of a step
// make the timeline a circle, for which the argument fails; so some steps are
// laid out in a row, what reaches in from outside is let in for nothing, and
// the sum is divided by their number. A plan repeated that often is one choice
// in the row.
//
// O(steps in the row * (T + gaps log gaps)).
int64_t LeastFetchedBytes(const PlanRequest& request,
                          const std::vector<Side>& side);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_LOWER_BOUND_H_
