#include "memory/plan/residency/room.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace castor {
namespace {

constexpr int64_t kBlock = 16;  // moments: two cache lines

}  // namespace

Room::Room(std::vector<int64_t> free_bytes)
    : moments_(static_cast<int64_t>(free_bytes.size())),
      free_(std::move(free_bytes)) {
  const int64_t blocks = (moments_ + kBlock - 1) / kBlock;
  while (leaves_ < blocks) leaves_ *= 2;
  nodes_.resize(2 * leaves_, {kUnlimitedBytes, 0});
  for (int64_t block = 0; block < blocks; ++block) {
    const auto first = free_.begin() + block * kBlock;
    nodes_[leaves_ + block].min = *std::min_element(
        first, free_.begin() + std::min(moments_, (block + 1) * kBlock));
  }
  for (int64_t node = leaves_ - 1; node > 0; --node) {
    nodes_[node].min = std::min(nodes_[2 * node].min, nodes_[2 * node + 1].min);
  }
}

void Room::Take(int64_t from, int64_t to, int64_t bytes) {
  CASTOR_CHECK(to - from <= moments_);
  if (from >= to) return;
  if (from >= moments_) from -= moments_, to -= moments_;
  Add(from, std::min(to, moments_), -bytes);
  if (to > moments_) Add(0, to - moments_, -bytes);
}

int64_t Room::Min(int64_t from, int64_t to) const {
  if (from >= to) return kUnlimitedBytes;
  if (from >= moments_) from -= moments_, to -= moments_;
  int64_t least = MinOf(from, std::min(to, moments_));
  if (to > moments_) least = std::min(least, MinOf(0, to - moments_));
  return least;
}

int64_t Room::EarliestStart(int64_t lo, int64_t hi, int64_t bytes) const {
  if (lo >= hi) return hi;
  const int64_t lap = lo >= moments_ ? moments_ : 0;
  lo -= lap;
  hi -= lap;
  if (hi > moments_) {
    const int64_t full = LastBelow(0, hi - moments_, bytes);
    if (full >= 0) return full + 1 + moments_ + lap;
  }
  const int64_t full = LastBelow(lo, std::min(hi, moments_), bytes);
  return (full >= 0 ? full + 1 : lo) + lap;
}

std::vector<int64_t> Room::Values() const {
  std::vector<int64_t> added(2 * leaves_, 0);  // to a node's whole range
  for (int64_t node = 1; node < 2 * leaves_; ++node) {
    added[node] = added[node / 2] + nodes_[node].added;
  }
  std::vector<int64_t> values = free_;
  for (int64_t t = 0; t < moments_; ++t) {
    values[t] += added[leaves_ + t / kBlock];
  }
  return values;
}

int64_t Room::MinOfChildren(int64_t node) const {
  return nodes_[node].added +
         std::min(nodes_[2 * node].min, nodes_[2 * node + 1].min);
}

void Room::Refresh(int64_t node) {
  for (node /= 2; node > 0; node /= 2) nodes_[node].min = MinOfChildren(node);
}

int64_t Room::AddedTo(int64_t block) const {
  int64_t added = 0;
  for (int64_t node = leaves_ + block; node > 0; node /= 2) {
    added += nodes_[node].added;
  }
  return added;
}

void Room::AddInBlock(int64_t block, int64_t from, int64_t to, int64_t delta) {
  for (int64_t t = from; t < to; ++t) free_[t] += delta;
  const auto first = free_.begin() + block * kBlock;
  Node& leaf = nodes_[leaves_ + block];
  leaf.min =
      leaf.added +
      *std::min_element(
          first, free_.begin() + std::min(moments_, (block + 1) * kBlock));
  // Go up as far as minima change.
  for (int64_t node = (leaves_ + block) / 2; node > 0; node /= 2) {
    Node& here = nodes_[node];
    const int64_t before_min = here.min;
    here.min = MinOfChildren(node);
    if (here.min == before_min) break;
  }
}

void Room::Add(int64_t from, int64_t to, int64_t delta) {
  int64_t first = from / kBlock;
  int64_t last = to / kBlock;  // to moment `to` is none or a part of it
  if (first == last) {
    AddInBlock(first, from, to, delta);
    return;
  }
  if (from % kBlock != 0) {
    AddInBlock(first, from, (first + 1) * kBlock, delta);
    ++first;
  }
  if (to % kBlock != 0) AddInBlock(last, last * kBlock, to, delta);
  if (first == last) return;
  const auto add = [&](int64_t node) {
    nodes_[node].min += delta;
    nodes_[node].added += delta;
  };
  int64_t lo = leaves_ + first;
  int64_t hi = leaves_ + last;
  for (; lo < hi; lo /= 2, hi /= 2) {
    if (lo % 2 == 1) add(lo++);
    if (hi % 2 == 1) add(--hi);
  }
  Refresh(leaves_ + first);
  Refresh(leaves_ + last - 1);
}

int64_t Room::MinOf(int64_t from, int64_t to) const {
  int64_t first = from / kBlock;
  const int64_t last = to / kBlock;
  const auto in_block = [&](int64_t block, int64_t begin, int64_t end) {
    return AddedTo(block) +
           *std::min_element(free_.begin() + begin, free_.begin() + end);
  };
  if (first == last) return in_block(first, from, to);
  int64_t least = kUnlimitedBytes;
  if (from % kBlock != 0) {
    least = in_block(first, from, (first + 1) * kBlock);
    ++first;
  }
  if (to % kBlock != 0) {
    least = std::min(least, in_block(last, last * kBlock, to));
  }
  if (first == last) return least;
  return std::min(least, MinOfBlocks(1, 0, leaves_, first, last));
}

int64_t Room::MinOfBlocks(int64_t node, int64_t lo, int64_t hi, int64_t first,
                          int64_t last) const {
  if (last <= lo || hi <= first) return kUnlimitedBytes;
  const Node& here = nodes_[node];
  if (first <= lo && hi <= last) return here.min;
  const int64_t mid = (lo + hi) / 2;
  return here.added + std::min(MinOfBlocks(2 * node, lo, mid, first, last),
                               MinOfBlocks(2 * node + 1, mid, hi, first, last));
}

int64_t Room::LastBelowInBlock(int64_t block, int64_t from, int64_t to,
                               int64_t bytes) const {
  const int64_t below = bytes - AddedTo(block);
  for (int64_t t = to - 1; t >= from; --t) {
    if (free_[t] < below) return t;
  }
  return -1;
}

int64_t Room::LastBelow(int64_t from, int64_t to, int64_t bytes) const {
  if (from >= to) return -1;
  const int64_t first = from / kBlock;
  const int64_t last = to / kBlock;
  if (first == last) return LastBelowInBlock(first, from, to, bytes);
  if (to % kBlock != 0) {
    const int64_t t = LastBelowInBlock(last, last * kBlock, to, bytes);
    if (t >= 0) return t;
  }
  const int64_t whole = from % kBlock == 0 ? first : first + 1;
  if (whole < last) {
    const int64_t block = LastBlockBelow(1, 0, leaves_, whole, last, bytes);
    if (block >= 0) {
      return LastBelowInBlock(block, block * kBlock, (block + 1) * kBlock,
                              bytes);
    }
  }
  return whole == first ? -1
                        : LastBelowInBlock(first, from, whole * kBlock, bytes);
}

int64_t Room::LastBlockBelow(int64_t node, int64_t lo, int64_t hi,
                             int64_t first, int64_t last, int64_t bytes) const {
  const Node& here = nodes_[node];
  if (last <= lo || hi <= first || here.min >= bytes) return -1;
  if (hi - lo == 1) return lo;
  const int64_t mid = (lo + hi) / 2;
  const int64_t below = bytes - here.added;
  const int64_t right =
      LastBlockBelow(2 * node + 1, mid, hi, first, last, below);
  if (right >= 0) return right;
  return LastBlockBelow(2 * node, lo, mid, first, last, below);
}

}  // namespace castor
