// The search over choices of blocks: kept, offloaded or made again.
#ifndef CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_SEARCH_H_
#define CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_SEARCH_H_

#include "memory/plan/blocks/block_plans.h"

namespace castor {

// Searches for the best choice of a step for which keeping nothing was tried
// and fits. Plans the choice that keeps all. Then sketches numbers of blocks of
// each use in every arrangement, and plans the best few; then plans the best
// sketches among the best choice's neighbours, as long as one of them is
// better. It ends earlier where nothing can be gained, and for a short step
// (BlockPlans::IsWorthMore).
void SearchBlocks(BlockPlans* plans);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_SEARCH_H_
