// The free ranges of an address space, in order, each with a time from which it
// may be overwritten. Neighbours are merged where that loses nothing.
//
// `When` is that time: a fence, a time of a simulation, or NoTime if free
// ranges may be overwritten at once. Costs: O(log n) for a search by address,
// O(n) for a search by size.
//
// Threads: one at a time.
#ifndef CASTOR_BASE_FREE_RANGES_H_
#define CASTOR_BASE_FREE_RANGES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/container/btree_map.h"
#include "base/check.h"

namespace castor {

struct NoTime {};

template <class When>
class FreeRanges {
 public:
  struct Rest {
    int64_t bytes = 0;
    When when = {};
  };
  // By offset. Ranges do not overlap, and none is empty.
  using Map = absl::btree_map<int64_t, Rest>;

  typename Map::const_iterator begin() const { return ranges_.begin(); }
  typename Map::const_iterator end() const { return ranges_.end(); }
  int64_t size() const { return static_cast<int64_t>(ranges_.size()); }

  // Adds [offset, offset + bytes), free from `when` on; no part of it was free.
  // `merge(into, other)` merges the times of two neighbours, or returns false
  // and leaves both.
  template <class Merge>
  void Give(int64_t offset, int64_t bytes, When when, Merge merge) {
    if (bytes == 0) return;
    auto next = ranges_.lower_bound(offset);
    if (next != ranges_.end() && next->first == offset + bytes &&
        merge(when, next->second.when)) {
      bytes += next->second.bytes;
      next = ranges_.erase(next);
    }
    if (next != ranges_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second.bytes == offset &&
          merge(before->second.when, when)) {
        before->second.bytes += bytes;
        return;
      }
    }
    ranges_.emplace_hint(next, offset, Rest{bytes, std::move(when)});
  }

  // Takes [offset, offset + bytes), all of which is free. `taken(when)` is
  // called for each range that it touches.
  template <class Taken>
  void Take(int64_t offset, int64_t bytes, Taken taken) {
    const int64_t end = offset + bytes;
    auto it = ranges_.upper_bound(offset);
    CASTOR_CHECK(it != ranges_.begin());
    --it;
    for (int64_t covered = offset; covered < end;) {
      CASTOR_CHECK(it != ranges_.end() && it->first <= covered);
      const int64_t range_end = it->first + it->second.bytes;
      CASTOR_CHECK(range_end > covered);
      taken(it->second.when);
      covered = range_end;
      When when = it->second.when;
      if (it->first < offset) {
        it->second.bytes = offset - it->first;
        ++it;
      } else {
        it = ranges_.erase(it);
      }
      if (range_end > end) {
        ranges_.emplace_hint(it, end, Rest{range_end - end, std::move(when)});
      }
    }
  }

  // Returns true if all of [offset, offset + bytes) is free.
  bool Holds(int64_t offset, int64_t bytes) const {
    auto it = ranges_.upper_bound(offset);
    if (it == ranges_.begin()) return false;
    int64_t free_from = (--it)->first;
    if (free_from + it->second.bytes <= offset) return false;
    for (; it != ranges_.end() && it->first == free_from; ++it) {
      free_from += it->second.bytes;
      if (free_from >= offset + bytes) return true;
    }
    return false;
  }

  // Returns the lowest offset of `bytes` that lie only in ranges whose times
  // are `usable(when)`; -1 if there is none.
  template <class Usable>
  int64_t FitLow(int64_t bytes, Usable usable) const {
    int64_t run_begin = -1, run_end = -1;
    for (const auto& [offset, range] : ranges_) {
      if (!usable(range.when)) continue;
      if (offset != run_end) run_begin = offset;
      run_end = offset + range.bytes;
      if (run_end - run_begin >= bytes) return run_begin;
    }
    return -1;
  }
  // Returns the highest such offset.
  template <class Usable>
  int64_t FitHigh(int64_t bytes, Usable usable) const {
    int64_t run_begin = -1, run_end = -1;
    for (auto it = ranges_.rbegin(); it != ranges_.rend(); ++it) {
      const auto& [offset, range] = *it;
      if (!usable(range.when)) continue;
      if (offset + range.bytes != run_begin) run_end = offset + range.bytes;
      run_begin = offset;
      if (run_end - run_begin >= bytes) return run_end - bytes;
    }
    return -1;
  }

  // Returns the most adjacent free bytes.
  int64_t LargestHole() const {
    int64_t largest = 0, run = 0, run_end = 0;
    for (const auto& [offset, range] : ranges_) {
      run = offset == run_end ? run + range.bytes : range.bytes;
      run_end = offset + range.bytes;
      largest = std::max(largest, run);
    }
    return largest;
  }

 private:
  Map ranges_;
};

}  // namespace castor

#endif  // CASTOR_BASE_FREE_RANGES_H_
