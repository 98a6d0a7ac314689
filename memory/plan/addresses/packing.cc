#include "memory/plan/addresses/packing.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace castor {
namespace {

// Some of the addresses, as ranges in ascending order that do not touch.
class AddressSet {
 public:
  bool empty() const { return ranges_.empty(); }
  void Clear() { ranges_.clear(); }

  void Add(int64_t begin, int64_t end) {
    // The first range that ends there or behind.
    auto first = std::lower_bound(
        ranges_.begin(), ranges_.end(), begin,
        [](const Range& range, int64_t at) { return range.end < at; });
    if (first == ranges_.end() || first->begin > end) {
      ranges_.insert(first, {begin, end});
      return;
    }
    if (first->begin <= begin && end <= first->end) return;
    auto last = first;  // the last one that it meets
    while (last + 1 != ranges_.end() && (last + 1)->begin <= end) ++last;
    first->begin = std::min(first->begin, begin);
    first->end = std::max(last->end, end);
    ranges_.erase(first + 1, last + 1);
  }

  // Returns the end, or the beginning, of the range that meets [begin, end):
  // the nearest offset upwards, or end of a block downwards, at which the range
  // would not be in the way. Returns `begin`, or `end`, if nothing is in the
  // way.
  int64_t Above(int64_t begin, int64_t end) const {
    const auto range = std::upper_bound(
        ranges_.begin(), ranges_.end(), begin,
        [](int64_t at, const Range& range) { return at < range.end; });
    return range == ranges_.end() || range->begin >= end ? begin : range->end;
  }
  int64_t Below(int64_t begin, int64_t end) const {
    auto range = std::lower_bound(
        ranges_.begin(), ranges_.end(), end,
        [](const Range& range, int64_t at) { return range.begin < at; });
    if (range == ranges_.begin()) return end;
    --range;
    return range->end <= begin ? end : range->begin;
  }

 private:
  struct Range {
    int64_t begin = 0, end = 0;
  };
  absl::InlinedVector<Range, 2> ranges_;  // mostly few
};

// The addresses that are taken at each time: a segment tree over the times. A
// block lies in the O(log length) nodes whose times it covers.
class Taken {
 public:
  explicit Taken(int64_t length) {
    while (size_ < length) size_ *= 2;
    here_.resize(size_);
    within_.resize(2 * size_);
  }

  void Clear() {
    for (AddressSet& set : here_) set.Clear();
    for (AddressSet& set : within_) set.Clear();
  }

  // Collects all addresses that are taken at some of the times [begin, end).
  void Find(int64_t begin, int64_t end,
            std::vector<const AddressSet*>* found) const {
    const int64_t first = begin + size_, last = end - 1 + size_;
    const auto find = [&](const AddressSet& set) {
      if (!set.empty()) found->push_back(&set);
    };
    ForCover(begin, end, [&](int64_t node) { find(within_[node]); });
    // Above the nodes of the cover are the ancestors of its two ends.
    for (int64_t a = first / 2, b = last / 2; a > 0; a /= 2, b /= 2) {
      find(here_[a]);
      if (b != a) find(here_[b]);
    }
  }

  void Add(int64_t begin, int64_t end, int64_t from, int64_t to) {
    ForCover(begin, end, [&](int64_t node) {
      if (node < size_) here_[node].Add(from, to);
      within_[node].Add(from, to);
    });
    for (int64_t a = (begin + size_) / 2, b = (end - 1 + size_) / 2; a > 0;
         a /= 2, b /= 2) {
      within_[a].Add(from, to);
      if (b != a) within_[b].Add(from, to);
    }
  }

 private:
  template <class Visit>
  void ForCover(int64_t begin, int64_t end, Visit visit) const {
    for (int64_t a = begin + size_, b = end + size_; a < b; a /= 2, b /= 2) {
      if (a % 2 == 1) visit(a++);
      if (b % 2 == 1) visit(--b);
    }
  }

  int64_t size_ = 1;  // of its leaves
  // Indexed by node: the addresses taken at all of its times, and those taken
  // at some of them, which are the same for a leaf.
  std::vector<AddressSet> here_, within_;
};

class Packer {
 public:
  Packer(const std::vector<PackedBlock>& blocks, int64_t length, int64_t room)
      : blocks_(blocks),
        length_(length),
        room_(room),
        taken_(length),
        offsets_(blocks.size()) {}

  // Places blocks in this order. Returns the index of the first one that finds
  // no place, or the number of blocks.
  int64_t Place(const std::vector<int64_t>& order) {
    taken_.Clear();
    for (size_t i = 0; i < order.size(); ++i) {
      if (!PlaceOne(order[i])) return static_cast<int64_t>(i);
    }
    return static_cast<int64_t>(order.size());
  }
  std::vector<int64_t>& offsets() { return offsets_; }

 private:
  template <class Visit>
  void ForTimes(const PackedBlock& block, Visit visit) const {
    if (block.begin < block.end) {
      visit(block.begin, block.end);
      return;
    }
    visit(block.begin, length_);
    if (block.end > 0) visit(int64_t{0}, block.end);
  }

  bool PlaceOne(int64_t i) {
    const PackedBlock& block = blocks_[i];
    found_.clear();
    ForTimes(block, [&](int64_t begin, int64_t end) {
      taken_.Find(begin, end, &found_);
    });
    const bool low = block.from == PackFrom::kLow;
    int64_t at = low ? 0 : room_ - block.bytes;
    // Each set of ranges pushes it on, until none does any more.
    for (size_t k = 0, agreed = 0; agreed < found_.size();
         k = k + 1 == found_.size() ? 0 : k + 1) {
      if (at < 0 || at + block.bytes > room_) return false;
      const int64_t next =
          low ? found_[k]->Above(at, at + block.bytes)
              : found_[k]->Below(at, at + block.bytes) - block.bytes;
      agreed = next == at ? agreed + 1 : 0;
      at = next;
    }
    if (at < 0 || at + block.bytes > room_) return false;
    offsets_[i] = at;
    ForTimes(block, [&](int64_t begin, int64_t end) {
      taken_.Add(begin, end, at, at + block.bytes);
    });
    return true;
  }

  const std::vector<PackedBlock>& blocks_;
  const int64_t length_;
  const int64_t room_;
  Taken taken_;
  std::vector<int64_t> offsets_;
  std::vector<const AddressSet*> found_;
};

int64_t Lifetime(const PackedBlock& block, int64_t length) {
  const int64_t times = block.end - block.begin;
  return times > 0 ? times : times + length;
}

}  // namespace

int64_t MostLiveBytes(const std::vector<PackedBlock>& blocks, int64_t length) {
  std::vector<int64_t> changes(length + 1, 0);
  for (const PackedBlock& block : blocks) {
    changes[block.begin] += block.bytes;
    changes[block.end] -= block.bytes;
    if (block.end <= block.begin) changes[0] += block.bytes;
  }
  int64_t live = 0, most = 0;
  for (int64_t t = 0; t < length; ++t) {
    live += changes[t];
    most = std::max(most, live);
  }
  return most;
}

std::optional<std::vector<int64_t>> Pack(const std::vector<PackedBlock>& blocks,
                                         int64_t length, int64_t room,
                                         int64_t effort) {
  const int64_t size = static_cast<int64_t>(blocks.size());
  if (MostLiveBytes(blocks, length) > room) return std::nullopt;
  Packer packer(blocks, length, room);
  // Three orders: long-lived blocks first, which nests blocks made and freed
  // like a stack; by the product of lifetime and bytes; and large blocks first.
  const auto rank = [&](const PackedBlock& block, int kind) {
    const double time = static_cast<double>(Lifetime(block, length));
    const double bytes = static_cast<double>(block.bytes);
    return kind == 0 ? time : kind == 1 ? time * bytes : bytes;
  };
  const auto order_of = [&](int kind) {
    std::vector<std::pair<double, int64_t>> ranked;  // the least first
    ranked.reserve(size);
    for (int64_t i = 0; i < size; ++i) {
      ranked.emplace_back(-rank(blocks[i], kind), i);
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<int64_t> order;
    order.reserve(size);
    for (const auto& [unused, i] : ranked) order.push_back(i);
    return order;
  };
  constexpr int kOrders = 3;
  std::vector<int64_t> orders[kOrders];  // those that were tried
  for (int kind = 0; effort > 0; kind = (kind + 1) % kOrders) {
    std::vector<int64_t>& order = orders[kind];
    if (order.empty()) order = order_of(kind);
    const int64_t placed = packer.Place(order);
    if (placed == size) return std::move(packer.offsets());
    effort -= placed + 1;
    // Move the block half of the way to the front.
    std::rotate(order.begin() + placed / 2, order.begin() + placed,
                order.begin() + placed + 1);
  }
  return std::nullopt;
}

}  // namespace castor
