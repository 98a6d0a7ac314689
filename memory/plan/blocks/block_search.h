// The search over choices of blocks: kept, offloaded or made again.
#ifndef CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_SEARCH_H_
#define CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_SEARCH_H_

#include <cstdint>

#include "memory/plan/blocks/block_plans.h"

namespace castor {

// The longest step, in operators, for which choices are sketched.
inline constexpr int64_t kMostSketchedMoments = 16 << 10;

// Searches for the best choice of a step for which keeping nothing was tried
// and fits. Plans the choice that keeps all, and choices in which some number
// of the blocks most worth keeping may leave. Then sketches numbers of each use
// in every arrangement, from a wide grid to a narrow one around the best, and
// plans the best few; then plans the best sketches among the best choice's
// neighbours, as long as one of them is better. If keeping all was the best
// before the sketches, the search ends with the wide grid, unless some sketch
// beats that choice's. For a short step the search ends earlier
// (BlockPlans::IsWorthMore).
void SearchBlocks(BlockPlans* plans);

// Searches for a long step, each plan of which takes long: tries only numbers
// of blocks to keep, and then numbers to keep or to offload.
void SearchBlocksOfLongStep(BlockPlans* plans);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_SEARCH_H_
