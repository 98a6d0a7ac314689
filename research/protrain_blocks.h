// The two of ProTrain's four numbers that are about activations, as a baseline
// for "activation_checkpointing": "auto". One is the number of blocks that are
// *swapped*, whose activations go to the host and come back, the other that of
// blocks that are *recomputed*; all others keep theirs.
// research/baseline_policies.h lists the sources.
//
// The last blocks keep them, since backward comes to these first. Of the others
// the first are swapped, which leaves the most time for it, and recomputed ones
// are spread among those that keep theirs; or swapped and recomputed ones
// alternate, so that copies of the former hide behind the compute of the
// latter:
//
//   2 of 8 swapped, 3 recomputed   spread       s s r . r . r .
//                                  alternating  s r r s r . . .
//
// Descriptions of the paper do not agree about which of the two it means, so
// both are tried.
#ifndef CASTOR_RESEARCH_PROTRAIN_BLOCKS_H_
#define CASTOR_RESEARCH_PROTRAIN_BLOCKS_H_

#include <cstdint>

#include "memory/plan/blocks/block_choice.h"
#include "memory/plan/blocks/block_uses.h"
#include "tracer/step_trace.h"

namespace castor {

// By position, in the order of running; `swapped` + `recomputed` <= `blocks`.
BlockUses SpreadBlocks(int64_t blocks, int64_t swapped, int64_t recomputed);
BlockUses AlternatingBlocks(int64_t blocks, int64_t swapped,
                            int64_t recomputed);

// The fastest choice of all numbers of blocks that are swapped and recomputed
// (of many blocks, of nine of each) with the plan of the protrain policy.
// Refusal: that of a step of which nothing is kept. The trace and `request_for`
// are as ChooseKeptBlocks's.
BlockChoiceOrRefusal ChooseProTrainBlocks(const StepTrace& trace,
                                          const PlanRequestFor& request_for);

}  // namespace castor

#endif  // CASTOR_RESEARCH_PROTRAIN_BLOCKS_H_
