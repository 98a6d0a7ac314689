// A block's *use* says what becomes of its activations: they are made again,
// kept, or kept by way of the host. This file lists the uses worth a try.
//
// Uses are indexed by position in the order of ascending worth of keeping a
// block (RankedBlocks in memory/plan/blocks/block_choice.h, reversed). Where
// all blocks are alike that is the order in which they run, and the last ones,
// to which backward comes first, are kept.
#ifndef CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_USES_H_
#define CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_USES_H_

#include <cstdint>
#include <vector>

namespace castor {

enum class BlockUse : uint8_t { kKept, kOffloaded, kRemade };
using BlockUses = std::vector<BlockUse>;

// Ways of laying out so many blocks of each use. 2 of 8 offloaded (o), 3 made
// again (r), the others kept:
enum class Arrangement : uint8_t {
  kOffloadedFirst,   // o o r r r . . .  which leaves the most time for copies
  kRemadeFirst,      // r r r o o . . .  copies take room for the least time
  kAlternating,      // o r r o r . . .  copies hide behind what is made again
  kRemadeSpread,     // o o r . r . r .
  kOffloadedSpread,  // r r r o . . o .  the bus has time between two of them
};
inline constexpr Arrangement kArrangements[] = {
    Arrangement::kOffloadedFirst, Arrangement::kRemadeFirst,
    Arrangement::kAlternating, Arrangement::kRemadeSpread,
    Arrangement::kOffloadedSpread};

// Returns the uses in that arrangement. `offloaded` + `remade` <= `blocks`.
BlockUses Arrange(Arrangement arrangement, int64_t blocks, int64_t offloaded,
                  int64_t remade);

// Returns the uses that differ from `uses` in one block, or by an exchange of
// two adjacent blocks: first changes where adjacent blocks differ in use, then
// all others. Each appears once.
std::vector<BlockUses> Neighbours(const BlockUses& uses);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_USES_H_
