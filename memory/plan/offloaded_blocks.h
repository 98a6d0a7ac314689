// Which of a step's kept blocks may have their activations on the host between
// their forward and their backward: the trace of such a choice.
//
// What such a block keeps for its backward alone is a chunk of the trace, a
// chunk of *activations* (ChunkInfo::block), and not among the operators'
// non-model bytes from the operator after its forward until backward has come
// to it:
//
//   moment      f f f  e ...................  b b b
//   non-model  [growing]                       [what is left]
//   chunk              [made .. (away) .. read]
//
// At e the chunk is made: it becomes resident without a copy, by the blocks
// that are there already, in e's own actions and not before, and is dirty. At b
// it is read; then it is worth nothing, and is dropped in the actions of the
// next moment: its blocks are non-model bytes again, until backward frees them.
// In between it leaves and comes back like any other payload, if the planner
// wants that: a plan that never drops it differs in nothing from one for a
// block that is kept. Each rank has its own activations, whole; the chunk's
// home is in its host memory, and is the same for all micro batches.
#ifndef CASTOR_MEMORY_PLAN_OFFLOADED_BLOCKS_H_
#define CASTOR_MEMORY_PLAN_OFFLOADED_BLOCKS_H_

#include <vector>

#include "tracer/step_trace.h"

namespace castor {

// The trace of the same step in which these blocks, by their numbers, are
// offloaded, of those that can be: they are kept, keep anything for their
// backward alone, the same in all micro batches, and there are operators on the
// device between their forward and their backward. `trace` may be of any such
// choice, and must pass CheckTrace. The operators keep their moments.
// O(operators).
StepTrace WithOffloadedBlocks(const StepTrace& trace,
                              const std::vector<bool>& offloaded);

// Those of a trace, as long as the highest number makes it.
std::vector<bool> OffloadedBlocksOf(const StepTrace& trace);

// Whether any chunk holds activations.
bool OffloadsActivations(const StepTrace& trace);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_OFFLOADED_BLOCKS_H_
