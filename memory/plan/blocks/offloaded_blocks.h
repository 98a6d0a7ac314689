// Makes the trace of a step some of whose kept blocks may have their
// activations on the host between their forward and their backward.
//
// The activations that such a block keeps only for its own backward become a
// chunk of the trace, a chunk of *activations* (ChunkInfo::block). They do not
// count as the operators' non-model bytes from the operator after the block's
// forward until backward comes to the block:
//
//   moment      f f f  e ...................  b b b
//   non-model  [growing]                       [what is left]
//   chunk              [made .. (away) .. read]
//
// At e the chunk is made: it takes over the blocks that are there already,
// without a copy, in e's own actions, and is dirty. At b it is read. After that
// its content is not needed, and it is dropped in the actions of the next
// moment: its blocks are non-model bytes again, until backward frees them. In
// between the planner may let it leave and come back like any other payload; a
// plan that never drops it equals a plan for a kept block. Each rank has its
// own activations, whole; the chunk's home is in the rank's host memory, and
// serves all micro batches.
#ifndef CASTOR_MEMORY_PLAN_BLOCKS_OFFLOADED_BLOCKS_H_
#define CASTOR_MEMORY_PLAN_BLOCKS_OFFLOADED_BLOCKS_H_

#include <vector>

#include "tracer/step_trace.h"

namespace castor {

// Returns the trace of the same step with these blocks, by their numbers,
// offloaded. A block can be offloaded if it is kept, keeps something only for
// its backward, the same in all micro batches, and operators on the device lie
// between its forward and its backward; others stay as they are. `trace` may be
// of any such choice, and must pass CheckTrace. The operators keep their
// moments. O(operators).
StepTrace WithOffloadedBlocks(const StepTrace& trace,
                              const std::vector<bool>& offloaded);

// Returns the blocks that are offloaded in a trace, up to the highest number.
std::vector<bool> OffloadedBlocksOf(const StepTrace& trace);

// Returns true if any chunk holds activations.
bool OffloadsActivations(const StepTrace& trace);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BLOCKS_OFFLOADED_BLOCKS_H_
