// A trace in a few numbers and sentences: what limits the run.
#ifndef CASTOR_INSIGHT_SUMMARY_H_
#define CASTOR_INSIGHT_SUMMARY_H_

#include <cstdint>
#include <optional>

#include "insight/spans.h"
#include "insight/trace_view.h"
#include "insight/wait_causes.h"

namespace castor {

// The plan that training has settled on: the last one, warm-up's only where
// there is no other, that a whole training step of the window runs on; -1 where
// there is no such step.
int64_t SettledPlan(const TraceIndex& index,
                    const std::vector<TraceView::Step>& steps);

// Sums up the whole training steps on that plan; returns nothing where there
// are none. The advice says nothing that the trace does not show.
std::optional<TraceView::Summary> Summarize(
    const TraceIndex& index, const SpanList& list, const WaitCauses& causes,
    const std::vector<TraceView::Step>& steps,
    const std::vector<TraceView::MemoryPoint>& host_memory,
    const std::vector<TraceView::BlockRow>& blocks);

}  // namespace castor

#endif  // CASTOR_INSIGHT_SUMMARY_H_
