// The steps of a trace's window: when, and where their time went.
#ifndef CASTOR_INSIGHT_STEPS_H_
#define CASTOR_INSIGHT_STEPS_H_

#include <vector>

#include "insight/spans.h"
#include "insight/trace_view.h"
#include "insight/wait_causes.h"

namespace castor {

// A step with a result lies where the result says: up to the end of its last
// work, from the end of the step before. Others from the end of the step before
// them in the window, or from their beginning, to the end of their last span.
//
// At each instant of a step the first of these that holds names the time:
//   compute    the compute stream works
//   optimizer  it waits, and the chain of causes is at the host's updates and
//              sums just then; or it has nothing to do, and they are under way
//   copies     it waits otherwise
//   idle       it has nothing to do
// so the four add up to the step's length exactly. O(n log n).
std::vector<TraceView::Step> BuildSteps(const TraceIndex& index,
                                        const SpanList& list,
                                        const WaitCauses& causes);

}  // namespace castor

#endif  // CASTOR_INSIGHT_STEPS_H_
