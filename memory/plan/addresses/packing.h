// Offline packing: finds an offset for each of many blocks, whose lifetimes in
// a step that repeats are known, so that no two live blocks overlap.
//
//   room  |  [ c  ]      [    d     ]        kHigh
//         |        [  e  ]
//         |
//         |[      b       ]   [   g   ]
//     0   |a ][     f        ][    a         kLow; a lives around the end
//         +------------------------------
//          0           time          length
//
// The smallest room is NP-hard to find (dynamic storage allocation). Here
// blocks are placed one after the other, each at the free place nearest to its
// end of the room, in several orders in turn; where one fails, the block that
// found no place comes earlier in the next try.
#ifndef CASTOR_MEMORY_PLAN_ADDRESSES_PACKING_H_
#define CASTOR_MEMORY_PLAN_ADDRESSES_PACKING_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace castor {

// The end of the room from which a block is placed.
enum class PackFrom : uint8_t { kLow, kHigh };

struct PackedBlock {
  // The block lives at the times [begin, end); if end <= begin, around the
  // step's end: [begin, length) and [0, end). begin in [0, length), end in [0,
  // length].
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes = 0;  // more than 0
  PackFrom from = PackFrom::kLow;
};

// Returns the most bytes that live at one time: no packing takes less room.
int64_t MostLiveBytes(const std::vector<PackedBlock>& blocks, int64_t length);

// Returns an offset for each block, all within [0, room); nothing if `effort`
// placements of blocks found no packing. A pure function. O(log length * holes)
// a placement.
std::optional<std::vector<int64_t>> Pack(const std::vector<PackedBlock>& blocks,
                                         int64_t length, int64_t room,
                                         int64_t effort);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_ADDRESSES_PACKING_H_
