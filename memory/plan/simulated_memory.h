// The simulator's picture of the device's memory.
#ifndef CASTOR_MEMORY_PLAN_SIMULATED_MEMORY_H_
#define CASTOR_MEMORY_PLAN_SIMULATED_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/check.h"

namespace castor {

// Free device memory by address, each segment with the time from which it may
// be overwritten. Like the arena, payloads take room from the low end and
// non-model bytes from the high end, each first what is free without waiting.
// There are no single activations here: their bytes come and go as one, so the
// arena's holes, and its moves of blocks, are not foreseen.
//
// A plan is found by simulating many, which spends most of its time here. So
// segments lie in two arrays whose busy end is the last: those that begin below
// `high_from`, where payloads come and go at the low end, the lowest last; and
// the others, where non-model bytes are, the highest last.
class SimulatedMemory {
 public:
  // The non-model bytes are from `high_from` on as a rule, for speed alone.
  explicit SimulatedMemory(int64_t bytes, int64_t high_from = 0)
      : high_from_(high_from) {
    Give({0, bytes}, 0);
  }

  struct Span {
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  using Spans = absl::InlinedVector<Span, 1>;  // one but where holes are small

  void Give(Span span, int64_t from_ns) {
    if (span.bytes == 0) return;
    if (from_ns <= over_by_ns_) over_bytes_ += span.bytes;
    const int64_t i = FirstFrom(span.offset);
    const auto meets = [&](int64_t low, int64_t high) {
      return InLow(low) == InLow(high);
    };
    if (i < size()) {
      const Segment next = At(i);
      if (next.offset == span.offset + span.bytes && next.from_ns == from_ns &&
          meets(span.offset, next.offset)) {
        span.bytes += next.bytes;
        Erase(i, i + 1);
      }
    }
    if (i > 0) {
      Segment& before = At(i - 1);
      if (before.offset + before.bytes == span.offset &&
          before.from_ns == from_ns && meets(before.offset, span.offset)) {
        before.bytes += span.bytes;
        return;
      }
    }
    Insert(i, {span.offset, span.bytes, from_ns});
  }

  // Takes for one payload the lowest hole that is over by `ready_ns`, or else
  // the lowest; in pieces where none is large enough. The time when it may be
  // written is never before `*from_ns`.
  Spans TakeLow(int64_t bytes, int64_t ready_ns, int64_t* from_ns) {
    Spans spans;
    int64_t offset = FitLowOver(bytes, ready_ns);
    if (offset < 0) {
      constexpr int64_t kEver = std::numeric_limits<int64_t>::max();
      offset = FitLow(bytes, kEver, kEver);
    }
    if (offset >= 0) {
      Take({offset, bytes}, from_ns);
      spans.push_back({offset, bytes});
      return spans;
    }
    while (bytes > 0) {
      CASTOR_CHECK(size() > 0);
      const Segment first = At(0);
      spans.push_back({first.offset, std::min(bytes, first.bytes)});
      bytes -= spans.back().bytes;
      Take(spans.back(), from_ns);
    }
    return spans;
  }

  // The highest bytes that are over by `ready_ns`, then the highest.
  void TakeHigh(int64_t bytes, int64_t ready_ns, int64_t* from_ns,
                std::vector<Span>* taken) {
    for (const int64_t limit_ns :
         {ready_ns, std::numeric_limits<int64_t>::max()}) {
      for (int64_t i = size() - 1; bytes > 0 && i >= 0; --i) {
        const Segment segment = At(i);
        if (segment.from_ns > limit_ns) continue;
        const int64_t part = std::min(bytes, segment.bytes);
        taken->push_back({segment.offset + segment.bytes - part, part});
        bytes -= part;
        Cut(i, taken->back(), from_ns);
      }
    }
    CASTOR_CHECK(bytes == 0);
  }

 private:
  struct Segment {
    int64_t offset = 0;
    int64_t bytes = 0;
    int64_t from_ns = 0;
  };

  // Segments are numbered by ascending offset.
  int64_t size() const {
    return static_cast<int64_t>(low_.size() + high_.size());
  }
  bool InLow(int64_t offset) const { return offset < high_from_; }
  Segment& At(int64_t i) {
    const int64_t lows = static_cast<int64_t>(low_.size());
    return i < lows ? low_[lows - 1 - i] : high_[i - lows];
  }
  // The number of the first one that begins there or behind.
  int64_t FirstFrom(int64_t offset) const {
    if (InLow(offset)) {
      return low_.end() - std::partition_point(low_.begin(), low_.end(),
                                               [&](const Segment& s) {
                                                 return s.offset >= offset;
                                               });
    }
    return static_cast<int64_t>(low_.size()) +
           (std::partition_point(
                high_.begin(), high_.end(),
                [&](const Segment& s) { return s.offset < offset; }) -
            high_.begin());
  }
  void Insert(int64_t i, const Segment& segment) {
    const int64_t lows = static_cast<int64_t>(low_.size());
    if (InLow(segment.offset)) {
      low_.insert(low_.end() - i, segment);
    } else {
      high_.insert(high_.begin() + (i - lows), segment);
    }
  }
  // Segments first up to last, of one array.
  void Erase(int64_t first, int64_t last) {
    const int64_t lows = static_cast<int64_t>(low_.size());
    if (first < lows) {
      low_.erase(low_.end() - last, low_.end() - first);
    } else {
      high_.erase(high_.begin() + (first - lows),
                  high_.begin() + (last - lows));
    }
  }

  // Takes `span`, all of which is in segment i.
  void Cut(int64_t i, Span span, int64_t* from_ns) {
    Segment& segment = At(i);
    *from_ns = std::max(*from_ns, segment.from_ns);
    if (segment.from_ns <= over_by_ns_) over_bytes_ -= span.bytes;
    const Segment behind = {
        span.offset + span.bytes,
        segment.offset + segment.bytes - span.offset - span.bytes,
        segment.from_ns};
    segment.bytes = span.offset - segment.offset;
    if (segment.bytes > 0) {
      if (behind.bytes > 0) Insert(i + 1, behind);
    } else if (behind.bytes > 0 &&
               InLow(behind.offset) == InLow(segment.offset)) {
      segment = behind;
    } else {
      Erase(i, i + 1);
      if (behind.bytes > 0) Insert(i, behind);
    }
  }

  // Takes `span`, all of which is free.
  void Take(Span span, int64_t* from_ns) {
    while (span.bytes > 0) {
      const int64_t first = FirstFrom(span.offset + 1) - 1;
      CASTOR_CHECK(first >= 0);
      // Those that go as a whole go at once.
      int64_t last = first;
      for (; last < size() && span.bytes > 0; ++last) {
        const Segment& segment = At(last);
        if (segment.offset != span.offset || segment.bytes > span.bytes ||
            InLow(segment.offset) != InLow(At(first).offset)) {
          break;
        }
        *from_ns = std::max(*from_ns, segment.from_ns);
        if (segment.from_ns <= over_by_ns_) over_bytes_ -= segment.bytes;
        span = {span.offset + segment.bytes, span.bytes - segment.bytes};
      }
      if (last > first) {
        Erase(first, last);
        continue;
      }
      const int64_t end = At(first).offset + At(first).bytes;
      CASTOR_CHECK(end > span.offset);
      const int64_t part = std::min(span.bytes, end - span.offset);
      Cut(first, {span.offset, part}, from_ns);
      span = {span.offset + part, span.bytes - part};
    }
  }

  // The lowest offset from which `bytes` follow that are over by `limit_ns`,
  // or -1. Of all segments `over_bytes` are.
  int64_t FitLow(int64_t bytes, int64_t limit_ns, int64_t over_bytes) {
    int64_t run_begin = -1, run_end = -1;
    // Whether the run that ends with the segment is long enough.
    const auto fits = [&](const Segment& segment) {
      if (segment.from_ns > limit_ns) return false;
      over_bytes -= segment.bytes;
      if (segment.offset != run_end) run_begin = segment.offset;
      run_end = segment.offset + segment.bytes;
      return run_end - run_begin >= bytes;
    };
    for (auto s = low_.rbegin(); over_bytes > 0 && s != low_.rend(); ++s) {
      if (fits(*s)) return run_begin;
    }
    for (auto s = high_.begin(); over_bytes > 0 && s != high_.end(); ++s) {
      if (fits(*s)) return run_begin;
    }
    return -1;
  }
  int64_t FitLowOver(int64_t bytes, int64_t ready_ns) {
    if (ready_ns != over_by_ns_) {
      over_by_ns_ = ready_ns;
      over_bytes_ = 0;
      for (int64_t i = 0; i < size(); ++i) {
        if (At(i).from_ns <= ready_ns) over_bytes_ += At(i).bytes;
      }
    }
    return over_bytes_ < bytes ? -1 : FitLow(bytes, ready_ns, over_bytes_);
  }

  int64_t high_from_;
  std::vector<Segment> low_, high_;
  // How many bytes are over by then: mostly none, late in a step.
  int64_t over_by_ns_ = -1;
  int64_t over_bytes_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATED_MEMORY_H_
