// Blocks that a client hands out at the end of a device's memory, as another
// framework's allocator on a GPU does. They are never moved.
//
//   0                    capacity - extent                     capacity
//   | blocks of the arena ...    | block | ~~~ | block | block |
//                                  the heap:  first fit, from the end
//
// The *extent* reaches from the end of the memory to the lowest block: the
// bytes that the heap needs, holes included. It follows from the order of
// Allocate and Free alone, so that a step that does the same again has the
// same.
//
// Threads: one at a time.
#ifndef CASTOR_CLIENT_CLIENT_HEAP_H_
#define CASTOR_CLIENT_CLIENT_HEAP_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/free_ranges.h"
#include "base/units.h"
#include "memory/plan/plan.h"

namespace castor {

class ClientHeap {
 public:
  ClientHeap() { free_.Give(0, kUnlimitedBytes, {}, Merge); }

  struct Block {
    int64_t bytes = 0;
    // The streams that work on it, as the client names them; each once.
    std::vector<void*> users = {};
  };

  // A block is named by its *reach*: how far its first byte is from the end of
  // the memory. Returns the reach that a block of `bytes` would have. `bytes`
  // is a positive multiple of kBlockAlignment.
  int64_t FindFit(int64_t bytes) const {
    return bytes + free_.FitLow(bytes, [](NoTime) { return true; });
  }
  // Adds a block with a reach that FindFit gave for its bytes.
  void Take(int64_t reach, Block block) {
    free_.Take(reach - block.bytes, block.bytes, [](NoTime) {});
    blocks_.emplace(reach, std::move(block));
  }
  // Returns null if there is no such block.
  Block* Find(int64_t reach) {
    const auto at = blocks_.find(reach);
    return at == blocks_.end() ? nullptr : &at->second;
  }
  // Removes the block with this reach, which must exist.
  void Free(int64_t reach) {
    const auto at = blocks_.find(reach);
    CASTOR_CHECK(at != blocks_.end());
    free_.Give(reach - at->second.bytes, at->second.bytes, {}, Merge);
    blocks_.erase(at);
  }

  int64_t extent_bytes() const {
    return blocks_.empty() ? 0 : blocks_.rbegin()->first;
  }
  bool empty() const { return blocks_.empty(); }

 private:
  static bool Merge(NoTime, NoTime) { return true; }

  FreeRanges<NoTime> free_;
  std::map<int64_t, Block> blocks_;  // by reach
};

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_HEAP_H_
