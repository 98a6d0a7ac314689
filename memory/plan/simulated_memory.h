// The simulator's picture of the device's memory.
#ifndef CASTOR_MEMORY_PLAN_SIMULATED_MEMORY_H_
#define CASTOR_MEMORY_PLAN_SIMULATED_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/free_ranges.h"

namespace castor {

// Free device memory by address, each segment with the time from which it may
// be overwritten. Like the arena, payloads take room from the low end and
// non-model bytes from the high end, each first what is free without waiting.
// There are no single activations here: their bytes come and go as one, so the
// arena's holes, and its moves of blocks, are not foreseen.
class SimulatedMemory {
 public:
  explicit SimulatedMemory(int64_t bytes) { Give({0, bytes}, 0); }

  struct Span {
    int64_t offset = 0;
    int64_t bytes = 0;
  };

  void Give(Span span, int64_t from_ns) {
    free_.Give(span.offset, span.bytes, from_ns,
               [](int64_t into, int64_t other) { return into == other; });
  }

  // Takes for one payload the lowest hole that is over by `ready_ns`, or else
  // the lowest; in pieces where none is large enough. The time when it may be
  // written is never before `*from_ns`.
  std::vector<Span> TakeLow(int64_t bytes, int64_t ready_ns, int64_t* from_ns) {
    for (const int64_t limit_ns :
         {ready_ns, std::numeric_limits<int64_t>::max()}) {
      const int64_t offset = free_.FitLow(
          bytes, [&](int64_t free_ns) { return free_ns <= limit_ns; });
      if (offset < 0) continue;
      Take({offset, bytes}, from_ns);
      return {{offset, bytes}};
    }
    std::vector<Span> pieces;
    while (bytes > 0) {
      const auto first = free_.begin();
      CASTOR_CHECK(first != free_.end());
      pieces.push_back({first->first, std::min(bytes, first->second.bytes)});
      bytes -= pieces.back().bytes;
      Take(pieces.back(), from_ns);
    }
    return pieces;
  }

  // The highest bytes that are over by `ready_ns`, then the highest.
  void TakeHigh(int64_t bytes, int64_t ready_ns, int64_t* from_ns,
                std::vector<Span>* taken) {
    for (const int64_t limit_ns :
         {ready_ns, std::numeric_limits<int64_t>::max()}) {
      const size_t first = taken->size();
      for (auto it = free_.end(); bytes > 0 && it != free_.begin();) {
        --it;
        if (it->second.when > limit_ns) continue;
        const int64_t part = std::min(bytes, it->second.bytes);
        taken->push_back({it->first + it->second.bytes - part, part});
        bytes -= part;
      }
      for (size_t i = first; i < taken->size(); ++i) Take((*taken)[i], from_ns);
    }
    CASTOR_CHECK(bytes == 0);
  }

 private:
  void Take(Span span, int64_t* from_ns) {
    free_.Take(span.offset, span.bytes, [&](int64_t free_ns) {
      *from_ns = std::max(*from_ns, free_ns);
    });
  }

  FreeRanges<int64_t> free_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATED_MEMORY_H_
