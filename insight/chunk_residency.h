// The places of each chunk over time, and what was done with it there.
//
// Built from what happened (copies, operators, the host's work) and, for what
// leaves no record, from the plan: what is on the device at the start, and
// which use is followed by a drop. A dropped chunk's bytes are free when its
// last work is over, so there its interval ends.
//
//   state       from                     to
//   arriving    its fetch starts         ... ends
//   hold        it arrived, or was used  its next use, or dropped
//   compute     an operator with it starts  ... ends
//   gradients   it was written           copied back; its gradients were added
//                                        up and parameters put back; updated
//   leaving     its copy back starts     ... ends
//   reducing, updating: on the host
//
// Activations that may go to the host are on the device from the operator after
// the one that made the last of them until the first one that reads them, but
// for when they are away.
#ifndef CASTOR_INSIGHT_CHUNK_RESIDENCY_H_
#define CASTOR_INSIGHT_CHUNK_RESIDENCY_H_

#include <cstdint>
#include <vector>

#include "insight/spans.h"
#include "insight/trace_view.h"

namespace castor {

// The window that intervals are cut to: from the first step's start, or the
// first span's where that is earlier, to the last end of either. Empty where
// there is neither.
struct TimeWindow {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};
TimeWindow WindowOf(const SpanList& list,
                    const std::vector<TraceView::Step>& steps);

// Returns the intervals by chunk, then start. Those of length 0 are left out.
// At most kMostEventsPerSpan uses of chunks per span are looked at, so that an
// operator with absurdly many chunks cannot make it slow. O(n log n).
inline constexpr int64_t kMostEventsPerSpan = 16;
std::vector<TraceView::Residency> BuildResidency(
    const TraceIndex& index, const SpanList& list,
    const std::vector<TraceView::Step>& steps);

}  // namespace castor

#endif  // CASTOR_INSIGHT_CHUNK_RESIDENCY_H_
