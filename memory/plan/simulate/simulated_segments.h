// A list of free segments in the order of their addresses, fast for many.
//
// It lies in blocks of a few segments each, so that an insertion or removal in
// the middle moves only the segments of its block, and a short list is one
// plain array.
#ifndef CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_SEGMENTS_H_
#define CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_SEGMENTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace castor {

struct SimulatedSegment {
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t from_ns = 0;  // it may be overwritten from then on

  int64_t end() const { return offset + bytes; }
};

class SimulatedSegments {
 public:
  // The place of a segment, valid until one is inserted or removed.
  struct Place {
    int64_t block = 0;  // in order; the number of blocks: behind the last one
    int64_t at = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };

  bool empty() const { return order_.empty(); }
  SimulatedSegment& operator[](Place place) {
    return BlockAt(place.block).segments[place.at];
  }
  Place begin() const { return {0, 0}; }
  Place end() const { return {NumBlocks(), 0}; }
  Place Next(Place place) const {
    return ++place.at < BlockAt(place.block).size ? place
                                                  : Place{place.block + 1, 0};
  }
  // Returns the place before this one, which is not the first.
  Place Before(Place place) const {
    if (place.at > 0) return {place.block, place.at - 1};
    return {place.block - 1, BlockAt(place.block - 1).size - 1};
  }

  SimulatedSegment& back() {
    Block& last = blocks_[order_.back()];
    return last.segments[last.size - 1];
  }
  void push_back(const SimulatedSegment& segment) {
    if (order_.empty() || blocks_[order_.back()].size == kMost) {
      AddBlock(NumBlocks());
    }
    Block& last = blocks_[order_.back()];
    last.segments[last.size++] = segment;
  }
  void pop_back() {
    if (--blocks_[order_.back()].size == 0) RemoveBlock(NumBlocks() - 1);
  }

  // Returns the first segment that begins at `offset` or after it.
  Place FirstFrom(int64_t offset) const {
    // Find the block of the last segment before it, if there is one.
    auto block = std::partition_point(
        order_.begin(), order_.end(),
        [&](int32_t b) { return blocks_[b].segments[0].offset < offset; });
    if (block == order_.begin()) return begin();
    --block;
    const Block& in = blocks_[*block];
    const auto first = std::partition_point(
        in.segments, in.segments + in.size,
        [&](const SimulatedSegment& s) { return s.offset < offset; });
    const int64_t number = block - order_.begin();
    return first == in.segments + in.size ? Place{number + 1, 0}
                                          : Place{number, first - in.segments};
  }

  // Inserts before the segment at `place`. Returns the new one's place.
  Place Insert(Place place, const SimulatedSegment& segment) {
    if (place == end()) {
      push_back(segment);
      return Before(end());
    }
    // At the end of the block before it nothing has to move.
    if (place.at == 0 && place.block > 0 &&
        BlockAt(place.block - 1).size < kMost) {
      Block& before = BlockAt(--place.block);
      before.segments[before.size] = segment;
      return {place.block, before.size++};
    }
    if (BlockAt(place.block).size == kMost) {
      Block& right = AddBlock(place.block + 1);
      Block& left = BlockAt(place.block);
      constexpr int64_t kHalf = kMost / 2;
      std::copy(left.segments + kHalf, left.segments + kMost, right.segments);
      left.size = kHalf;
      right.size = kMost - kHalf;
      if (place.at > kHalf) place = {place.block + 1, place.at - kHalf};
    }
    Block& block = BlockAt(place.block);
    std::copy_backward(block.segments + place.at, block.segments + block.size,
                       block.segments + block.size + 1);
    block.segments[place.at] = segment;
    ++block.size;
    return place;
  }
  // Returns the place of the segment behind the erased one.
  Place Erase(Place place) {
    Block& block = BlockAt(place.block);
    std::copy(block.segments + place.at + 1, block.segments + block.size,
              block.segments + place.at);
    --block.size;
    if (block.size == 0) {
      RemoveBlock(place.block);
      return {place.block, 0};
    }
    return place.at < block.size ? place : Place{place.block + 1, 0};
  }

 private:
  static constexpr int64_t kMost = 32;
  struct Block {
    int64_t size = 0;  // more than 0 while it is in the list
    SimulatedSegment segments[kMost];
  };

  int64_t NumBlocks() const { return static_cast<int64_t>(order_.size()); }
  Block& BlockAt(int64_t number) { return blocks_[order_[number]]; }
  const Block& BlockAt(int64_t number) const { return blocks_[order_[number]]; }
  Block& AddBlock(int64_t number) {
    if (unused_.empty()) {
      unused_.push_back(static_cast<int32_t>(blocks_.size()));
      blocks_.emplace_back();
    }
    order_.insert(order_.begin() + number, unused_.back());
    unused_.pop_back();
    return BlockAt(number);
  }
  void RemoveBlock(int64_t number) {
    BlockAt(number).size = 0;
    unused_.push_back(order_[number]);
    order_.erase(order_.begin() + number);
  }

  std::vector<Block> blocks_;
  std::vector<int32_t> order_;   // of blocks, by address
  std::vector<int32_t> unused_;  // blocks
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_SEGMENTS_H_
