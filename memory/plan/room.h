// Free device bytes over the moments of a cyclic step.
//
// Ranges are half-open and unrolled: [from, to) with from < to <= from + T goes
// over the end of the step into the next one, which is the same step again.
#ifndef CASTOR_MEMORY_PLAN_ROOM_H_
#define CASTOR_MEMORY_PLAN_ROOM_H_

#include <cstdint>
#include <vector>

namespace castor {

// A segment tree with addition to and minimum over ranges, each in O(log T).
class Room {
 public:
  explicit Room(const std::vector<int64_t>& free_bytes);

  // Negative bytes give room back.
  void Take(int64_t from, int64_t to, int64_t bytes);

  // The least free bytes over [from, to); kUnlimitedBytes of an empty range.
  int64_t Min(int64_t from, int64_t to) const;

  // The least s in [lo, hi] with Min(s, hi) >= bytes.
  int64_t EarliestStart(int64_t lo, int64_t hi, int64_t bytes) const;

  int64_t moments() const { return moments_; }

 private:
  struct Node {
    int64_t min = 0;    // over the node's range, its own `added` included
    int64_t added = 0;  // to the whole range
  };

  void Build(int64_t node, int64_t lo, int64_t hi,
             const std::vector<int64_t>& free_bytes);
  void Add(int64_t node, int64_t lo, int64_t hi, int64_t from, int64_t to,
           int64_t delta);
  int64_t MinIn(int64_t node, int64_t lo, int64_t hi, int64_t from,
                int64_t to) const;
  // The last moment in [from, to) with less than `bytes` free, or -1.
  int64_t LastBelow(int64_t node, int64_t lo, int64_t hi, int64_t from,
                    int64_t to, int64_t bytes) const;

  int64_t moments_;
  std::vector<Node> nodes_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_ROOM_H_
