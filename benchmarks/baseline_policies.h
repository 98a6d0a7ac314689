// Other systems' ways to place chunks, as policies to compare auto with. The
// product does not have them.
//
// Each is written from what its authors say of it, for what there is here: one
// device and one host, states on the side of their chunk, activations that do
// not move. They are given exact non-model bytes of every moment and gradients
// that leave as they do under cpu; all choose from what was admitted, as auto
// does, so that they run at every budget at which it runs.
//
//   gemini      Colossal-AI's auto placement (zero/gemini/placement_policy.py):
//               chunks come when they are used; in a tenth less than the
//               budget, where that is possible, those leave whose next use in
//               this step is the farthest. States are on the host.
//   patrickstar PatrickStar (arXiv 2108.05818): the same with the whole budget,
//               over the step's end too, and states of the first chunks in the
//               room that no moment needs.
//   protrain    ProTrain (arXiv 2406.08334), two of its four numbers, of all
//               that are tried those with the fastest simulated step: so many
//               persistent chunks, which stay with their states, and buffers
//               for so many others, which come ahead and leave after their use.
#ifndef CASTOR_BENCHMARKS_BASELINE_POLICIES_H_
#define CASTOR_BENCHMARKS_BASELINE_POLICIES_H_

#include "absl/types/span.h"
#include "memory/plan/policy/policies.h"

namespace castor {

absl::Span<const PlacementPolicy> BaselinePolicies();

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_BASELINE_POLICIES_H_
