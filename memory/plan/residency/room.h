// Free device bytes over the moments of a cyclic step.
//
// Ranges are half-open and unrolled: [from, to) with from < to <= from + T goes
// over the end of the step into the next one, which is the same step again.
#ifndef CASTOR_MEMORY_PLAN_RESIDENCY_ROOM_H_
#define CASTOR_MEMORY_PLAN_RESIDENCY_ROOM_H_

#include <cstdint>
#include <vector>

namespace castor {

// A segment tree over blocks of moments, with addition to and minimum over
// ranges, each in O(log T). Most ranges are short and touch few blocks.
class Room {
 public:
  explicit Room(std::vector<int64_t> free_bytes);

  // Negative bytes give room back.
  void Take(int64_t from, int64_t to, int64_t bytes);

  // Returns the least free bytes over [from, to); kUnlimitedBytes for an empty
  // range.
  int64_t Min(int64_t from, int64_t to) const;

  // Returns the least s in [lo, hi] with Min(s, hi) >= bytes.
  int64_t EarliestStart(int64_t lo, int64_t hi, int64_t bytes) const;

  // Returns the free bytes of every moment. O(T).
  std::vector<int64_t> Values() const;

  int64_t moments() const { return moments_; }

 private:
  // The leaf of a block is node leaves_ + block; node 1 is the root, and the
  // children of a node are twice its number and one more.
  struct Node {
    int64_t min = 0;    // over the node's range, its own `added` included
    int64_t added = 0;  // to the whole range
  };

  // Ranges here do not go over the end of the step.
  void Add(int64_t from, int64_t to, int64_t delta);
  int64_t MinOf(int64_t from, int64_t to) const;
  // Returns the last moment in [from, to) with less than `bytes` free, or -1.
  int64_t LastBelow(int64_t from, int64_t to, int64_t bytes) const;

  // The range is a part of one block.
  void AddInBlock(int64_t block, int64_t from, int64_t to, int64_t delta);
  int64_t LastBelowInBlock(int64_t block, int64_t from, int64_t to,
                           int64_t bytes) const;
  // The same for whole blocks in [first, last), in the subtree of `node`, which
  // covers the blocks in [lo, hi).
  int64_t MinOfBlocks(int64_t node, int64_t lo, int64_t hi, int64_t first,
                      int64_t last) const;
  int64_t LastBlockBelow(int64_t node, int64_t lo, int64_t hi, int64_t first,
                         int64_t last, int64_t bytes) const;
  // Returns the minimum of an inner node, from its children.
  int64_t MinOfChildren(int64_t node) const;
  // Recomputes the minima of the nodes above `node`.
  void Refresh(int64_t node);
  // Returns the sum of all that was added to the whole block.
  int64_t AddedTo(int64_t block) const;

  int64_t moments_;
  int64_t leaves_ = 1;         // a power of two, at least the number of blocks
  std::vector<int64_t> free_;  // without additions to whole blocks
  std::vector<Node> nodes_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_RESIDENCY_ROOM_H_
