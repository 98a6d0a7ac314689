// Device and host bytes over time, and what the plan expected.
#ifndef CASTOR_INSIGHT_MEMORY_CURVE_H_
#define CASTOR_INSIGHT_MEMORY_CURVE_H_

#include <optional>
#include <vector>

#include "insight/spans.h"
#include "insight/trace_view.h"

namespace castor {

// The arena's count at each operator, at the time at which the operator starts
// on the device. One that runs on the host, or was not recorded, stands where
// the operator before it does. Points without all categories are left out.
// O(n log n).
std::vector<TraceView::MemoryPoint> DeviceCurve(const TraceIndex& index,
                                                const SpanList& list,
                                                size_t categories);

// The host's bytes, in the order of time.
std::vector<TraceView::MemoryPoint> HostCurve(const TraceIndex& index,
                                              size_t categories);

// The changes of the device's budget, in the order of time.
std::vector<BudgetRecord> BudgetChanges(const TraceIndex& index);

// The plan's bytes at each operator of each step, at the times at which the
// operators really began, so that both curves can be compared operator by
// operator, however long each took. What stands beyond the step's end is left
// out. At most kMostPredictedPoints, the first.
inline constexpr int64_t kMostPredictedPoints = 2'000'000;
std::vector<TraceView::PredictedPoint> PredictedCurve(
    const TraceIndex& index, const SpanList& list,
    const std::vector<TraceView::Step>& steps);

// The first of the highest points.
std::optional<TraceView::Peak> FindPeak(
    const TraceIndex& index, const std::vector<TraceView::MemoryPoint>& curve);

}  // namespace castor

#endif  // CASTOR_INSIGHT_MEMORY_CURVE_H_
