// The simulator's model of the device's memory.
#ifndef CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_MEMORY_H_
#define CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "memory/plan/simulate/simulated_segments.h"

namespace castor {

// Free device memory by address, each segment with the time from which it may
// be overwritten. As in the arena, payloads take room from the low end and
// non-model bytes from the high end, each first the bytes that are free without
// waiting. There are no single activations: their bytes come and go as one, so
// the arena's holes and moves of blocks are not simulated.
//
// A plan is found by simulating many, so the most frequent calls, which take
// and give back bytes at the high end, are short and inline.
class SimulatedMemory {
 public:
  explicit SimulatedMemory(int64_t bytes) { Give({0, bytes}, 0); }

  struct Span {
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  using Spans = absl::InlinedVector<Span, 1>;  // one but where holes are small

  void Give(Span span, int64_t from_ns) {
    const bool on_top = from_ns > search_ready_ns_ && !free_.empty() &&
                        free_.back().offset < span.offset;
    if (!on_top) {
      GiveAnywhere(span, from_ns);
    } else if (free_.back().from_ns == from_ns &&
               free_.back().end() == span.offset) {
      free_.back().bytes += span.bytes;
    } else if (span.bytes > 0) {
      free_.push_back({span.offset, span.bytes, from_ns});
    }
  }

  // Takes for one payload the lowest hole that may be written by `ready_ns`, or
  // else the lowest hole; in pieces where none is large enough. Raises
  // `*from_ns` to the time from which all of it may be written.
  Spans TakeLow(int64_t bytes, int64_t ready_ns, int64_t* from_ns);

  // Takes the highest bytes that may be written by `ready_ns`, then the highest
  // of the others, and adds them to `taken`; a span directly below the last one
  // there becomes a part of it.
  void TakeHigh(int64_t bytes, int64_t ready_ns, int64_t* from_ns,
                std::vector<Span>* taken) {
    while (bytes > 0 && !free_.empty() && free_.back().from_ns <= ready_ns) {
      SimulatedSegment& top = free_.back();
      const int64_t part = std::min(bytes, top.bytes);
      *from_ns = std::max(*from_ns, top.from_ns);
      top.bytes -= part;
      AddBelow({top.end(), part}, taken);
      bytes -= part;
      if (top.bytes == 0) free_.pop_back();
    }
    if (bytes > 0) TakeHighAnywhere(bytes, ready_ns, from_ns, taken);
  }

  // Merges the segments that may be written by `now_ns`: no later call has a
  // smaller `ready_ns`. O(segments).
  void Forget(int64_t now_ns);

 private:
  using Place = SimulatedSegments::Place;

  void GiveAnywhere(Span span, int64_t from_ns);
  void TakeHighAnywhere(int64_t bytes, int64_t ready_ns, int64_t* from_ns,
                        std::vector<Span>* taken);
  // Takes `bytes` from the beginning of a segment on, which follow without a
  // gap.
  void TakeFrom(Place first, int64_t bytes, int64_t* from_ns);
  static void AddBelow(Span span, std::vector<Span>* taken) {
    if (!taken->empty() && span.offset + span.bytes == taken->back().offset) {
      taken->back() = {span.offset, taken->back().bytes + span.bytes};
    } else {
      taken->push_back(span);
    }
  }

  // Returns the first of the lowest segments, from `first` on, that follow
  // without a gap, may be written by `limit_ns` and have `bytes`; or the end.
  Place FitLow(Place first, int64_t bytes, int64_t limit_ns);
  Place FitLowOver(int64_t bytes, int64_t ready_ns);

  SimulatedSegments free_;
  // The result of the last searches for a hole that may be written by
  // `search_ready_ns_`: none of at least `search_bytes_` begins before
  // `search_from_`.
  int64_t search_ready_ns_ = -1;
  int64_t search_bytes_ = 0;
  int64_t search_from_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATE_SIMULATED_MEMORY_H_
