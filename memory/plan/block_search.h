// Which choices of blocks are planned.
#ifndef CASTOR_MEMORY_PLAN_BLOCK_SEARCH_H_
#define CASTOR_MEMORY_PLAN_BLOCK_SEARCH_H_

#include <cstdint>

#include "memory/plan/block_plans.h"

namespace castor {

// The longest step, in operators, for which choices are sketched.
inline constexpr int64_t kMostSketchedMoments = 16 << 10;

// For a step of which the choice that keeps nothing was tried, and fits. All
// kept is planned, and numbers of the blocks that are worth the most to keep as
// blocks that may leave. Then numbers of each use are sketched in every
// arrangement, from a wide grid to a narrow one around the best, and the best
// few are planned; then the best sketches of the best choice's neighbours, as
// long as one of them is better. Where all kept is the best before sketches, it
// ends with the wide grid unless some sketch is better than that choice's. A
// short step is not worth all of that: there it ends earlier, with the best
// that was planned by then (BlockPlans::IsWorthMore).
void SearchBlocks(BlockPlans* plans);

// The same for a long step, of which each plan takes long: numbers of the first
// blocks to keep alone are tried, and then of those to keep or to offload.
void SearchBlocksOfLongStep(BlockPlans* plans);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BLOCK_SEARCH_H_
