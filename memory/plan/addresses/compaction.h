// Chooses the blocks that are moved together where no hole is large enough.
#ifndef CASTOR_MEMORY_PLAN_ADDRESSES_COMPACTION_H_
#define CASTOR_MEMORY_PLAN_ADDRESSES_COMPACTION_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/free_ranges.h"

namespace castor {

struct AddressRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Returns the range of addresses, from the beginning of one hole to the end of
// one, in which at least `wanted` bytes are free and the fewest are used. To
// make one hole of its holes, exactly the blocks between them move. At least
// `wanted` bytes must be free in all.
template <class When>
AddressRange CheapestWindow(const FreeRanges<When>& free, int64_t wanted) {
  std::vector<AddressRange> holes;
  for (const auto& [offset, range] : free) {
    if (holes.empty() || holes.back().end != offset) {
      holes.push_back({offset, offset});
    }
    holes.back().end = offset + range.bytes;
  }
  int64_t least = std::numeric_limits<int64_t>::max();
  AddressRange best;
  int64_t free_in_window = 0;
  size_t first = 0;
  for (const AddressRange& last : holes) {
    free_in_window += last.end - last.begin;
    // Shrink to the shortest window that ends here and has enough.
    while (free_in_window - (holes[first].end - holes[first].begin) >= wanted) {
      free_in_window -= holes[first].end - holes[first].begin;
      ++first;
    }
    if (free_in_window < wanted) continue;
    const int64_t used = last.end - holes[first].begin - free_in_window;
    if (used < least) {
      least = used;
      best = {holes[first].begin, last.end};
    }
  }
  CASTOR_CHECK(least < std::numeric_limits<int64_t>::max());
  return best;
}

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_ADDRESSES_COMPACTION_H_
