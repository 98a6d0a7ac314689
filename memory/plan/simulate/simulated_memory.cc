#include "memory/plan/simulate/simulated_memory.h"

#include <limits>
#include <utility>

#include "base/check.h"

namespace castor {
namespace {

constexpr int64_t kEver = std::numeric_limits<int64_t>::max();

}  // namespace

SimulatedMemory::Spans SimulatedMemory::TakeLow(int64_t bytes, int64_t ready_ns,
                                                int64_t* from_ns) {
  Place first = FitLowOver(bytes, ready_ns);
  if (first == free_.end()) first = FitLow(free_.begin(), bytes, kEver);
  Spans spans;
  if (first != free_.end()) {
    spans.push_back({free_[first].offset, bytes});
    TakeFrom(first, bytes, from_ns);
    return spans;
  }
  while (bytes > 0) {
    CASTOR_CHECK(!free_.empty());
    const SimulatedSegment& lowest = free_[free_.begin()];
    spans.push_back({lowest.offset, std::min(bytes, lowest.bytes)});
    bytes -= spans.back().bytes;
    TakeFrom(free_.begin(), spans.back().bytes, from_ns);
  }
  return spans;
}

void SimulatedMemory::TakeHighAnywhere(int64_t bytes, int64_t ready_ns,
                                       int64_t* from_ns,
                                       std::vector<Span>* taken) {
  for (const int64_t limit_ns : {ready_ns, kEver}) {
    for (Place at = free_.end(); bytes > 0 && at != free_.begin();) {
      at = free_.Before(at);
      SimulatedSegment& segment = free_[at];
      if (segment.from_ns > limit_ns) continue;
      const int64_t part = std::min(bytes, segment.bytes);
      *from_ns = std::max(*from_ns, segment.from_ns);
      segment.bytes -= part;
      AddBelow({segment.end(), part}, taken);
      bytes -= part;
      if (segment.bytes == 0) at = free_.Erase(at);
    }
  }
  CASTOR_CHECK(bytes == 0);
}

void SimulatedMemory::Forget(int64_t now_ns) {
  SimulatedSegments all = std::exchange(free_, {});
  for (Place at = all.begin(); at != all.end(); at = all.Next(at)) {
    SimulatedSegment segment = all[at];
    segment.from_ns = std::max(segment.from_ns, now_ns);
    if (!free_.empty() && free_.back().end() == segment.offset &&
        free_.back().from_ns == segment.from_ns) {
      free_.back().bytes += segment.bytes;
    } else {
      free_.push_back(segment);
    }
  }
  search_ready_ns_ = -1;
}

void SimulatedMemory::GiveAnywhere(Span span, int64_t from_ns) {
  if (span.bytes == 0) return;
  Place at = free_.FirstFrom(span.offset);
  if (at != free_.end() && free_[at].from_ns == from_ns &&
      free_[at].offset == span.offset + span.bytes) {
    span.bytes += free_[at].bytes;
    at = free_.Erase(at);
  }
  if (at != free_.begin() && free_[free_.Before(at)].from_ns == from_ns &&
      free_[free_.Before(at)].end() == span.offset) {
    at = free_.Before(at);
    free_[at].bytes += span.bytes;
  } else {
    at = free_.Insert(at, {span.offset, span.bytes, from_ns});
  }
  if (from_ns > search_ready_ns_) return;
  // A hole that may be written has grown, or there is a new one.
  while (at != free_.begin()) {
    const Place before = free_.Before(at);
    if (free_[before].end() != free_[at].offset ||
        free_[before].from_ns > search_ready_ns_) {
      break;
    }
    at = before;
  }
  search_from_ = std::min(search_from_, free_[at].offset);
}

void SimulatedMemory::TakeFrom(Place first, int64_t bytes, int64_t* from_ns) {
  while (bytes > 0) {
    SimulatedSegment& segment = free_[first];
    *from_ns = std::max(*from_ns, segment.from_ns);
    if (segment.bytes > bytes) {
      segment.offset += bytes;
      segment.bytes -= bytes;
      return;
    }
    bytes -= segment.bytes;
    first = free_.Erase(first);
  }
}

SimulatedMemory::Place SimulatedMemory::FitLow(Place first, int64_t bytes,
                                               int64_t limit_ns) {
  int64_t run_begin = -1, run_end = -1;
  const Place end = free_.end();
  for (Place at = first; at != end; at = free_.Next(at)) {
    const SimulatedSegment& segment = free_[at];
    if (segment.from_ns > limit_ns) continue;
    if (segment.offset != run_end) {
      first = at;
      run_begin = segment.offset;
    }
    run_end = segment.end();
    if (run_end - run_begin >= bytes) return first;
  }
  return end;
}

SimulatedMemory::Place SimulatedMemory::FitLowOver(int64_t bytes,
                                                   int64_t ready_ns) {
  if (ready_ns != search_ready_ns_ || bytes < search_bytes_) {
    search_ready_ns_ = ready_ns;
    search_from_ = 0;
  }
  search_bytes_ = bytes;
  if (search_from_ == kEver) return free_.end();
  const Place first = FitLow(free_.FirstFrom(search_from_), bytes, ready_ns);
  search_from_ = first == free_.end() ? kEver : free_[first].offset;
  return first;
}

}  // namespace castor
