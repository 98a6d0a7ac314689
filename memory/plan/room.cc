#include "memory/plan/room.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"

namespace castor {

Room::Room(const std::vector<int64_t>& free_bytes)
    : moments_(static_cast<int64_t>(free_bytes.size())),
      nodes_(4 * std::max<size_t>(1, free_bytes.size())) {
  if (moments_ > 0) Build(0, 0, moments_, free_bytes);
}

void Room::Take(int64_t from, int64_t to, int64_t bytes) {
  CASTOR_CHECK(to - from <= moments_);
  if (from >= to) return;
  if (from >= moments_) from -= moments_, to -= moments_;
  Add(0, 0, moments_, from, std::min(to, moments_), -bytes);
  if (to > moments_) Add(0, 0, moments_, 0, to - moments_, -bytes);
}

int64_t Room::Min(int64_t from, int64_t to) const {
  if (from >= to) return kUnlimitedBytes;
  if (from >= moments_) from -= moments_, to -= moments_;
  int64_t least = MinIn(0, 0, moments_, from, std::min(to, moments_));
  if (to > moments_) {
    least = std::min(least, MinIn(0, 0, moments_, 0, to - moments_));
  }
  return least;
}

int64_t Room::EarliestStart(int64_t lo, int64_t hi, int64_t bytes) const {
  if (lo >= hi) return hi;
  const int64_t lap = lo >= moments_ ? moments_ : 0;
  lo -= lap;
  hi -= lap;
  if (hi > moments_) {
    const int64_t full = LastBelow(0, 0, moments_, 0, hi - moments_, bytes);
    if (full >= 0) return full + 1 + moments_ + lap;
  }
  const int64_t full =
      LastBelow(0, 0, moments_, lo, std::min(hi, moments_), bytes);
  return (full >= 0 ? full + 1 : lo) + lap;
}

void Room::Build(int64_t node, int64_t lo, int64_t hi,
                 const std::vector<int64_t>& free_bytes) {
  if (hi - lo == 1) {
    nodes_[node].min = free_bytes[lo];
    return;
  }
  const int64_t mid = (lo + hi) / 2;
  Build(2 * node + 1, lo, mid, free_bytes);
  Build(2 * node + 2, mid, hi, free_bytes);
  nodes_[node].min =
      std::min(nodes_[2 * node + 1].min, nodes_[2 * node + 2].min);
}

void Room::Add(int64_t node, int64_t lo, int64_t hi, int64_t from, int64_t to,
               int64_t delta) {
  if (to <= lo || hi <= from) return;
  Node& here = nodes_[node];
  if (from <= lo && hi <= to) {
    here.min += delta;
    here.added += delta;
    return;
  }
  const int64_t mid = (lo + hi) / 2;
  Add(2 * node + 1, lo, mid, from, to, delta);
  Add(2 * node + 2, mid, hi, from, to, delta);
  here.min =
      here.added + std::min(nodes_[2 * node + 1].min, nodes_[2 * node + 2].min);
}

int64_t Room::MinIn(int64_t node, int64_t lo, int64_t hi, int64_t from,
                    int64_t to) const {
  if (to <= lo || hi <= from) return kUnlimitedBytes;
  const Node& here = nodes_[node];
  if (from <= lo && hi <= to) return here.min;
  const int64_t mid = (lo + hi) / 2;
  return here.added + std::min(MinIn(2 * node + 1, lo, mid, from, to),
                               MinIn(2 * node + 2, mid, hi, from, to));
}

int64_t Room::LastBelow(int64_t node, int64_t lo, int64_t hi, int64_t from,
                        int64_t to, int64_t bytes) const {
  const Node& here = nodes_[node];
  if (to <= lo || hi <= from || here.min >= bytes) return -1;
  if (hi - lo == 1) return lo;
  const int64_t mid = (lo + hi) / 2;
  const int64_t below = bytes - here.added;
  const int64_t right = LastBelow(2 * node + 2, mid, hi, from, to, below);
  if (right >= 0) return right;
  return LastBelow(2 * node + 1, lo, mid, from, to, below);
}

}  // namespace castor
