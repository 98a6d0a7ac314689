// Everything on the device, always: no action in the steady state but those by
// which activations begin and end.
#include "memory/plan/policy/schedules.h"

namespace castor {

Plan PlanCuda(const PlanRequest& request, const Admission& admission) {
  const StepTrace& trace = *request.trace;
  Plan plan;
  plan.signature = trace.signature;
  plan.side = request.fixed_side.empty()
                  ? SidesOf(trace, admission.order,
                            static_cast<int64_t>(admission.order.size()))
                  : request.fixed_side;
  for (int64_t c = 0; c < static_cast<int64_t>(trace.chunks.size()); ++c) {
    if (trace.chunks[c].holds_activations()) continue;
    // An update leaves the payload dirty; frozen parameters never change.
    plan.initial.push_back({ChunkId(c), plan.side[c] == Side::kDevice});
  }
  plan.actions.resize(trace.ops.size() + 1);
  for (size_t t = 0; t < trace.ops.size(); ++t) {
    for (const ChunkUse& use : trace.ops[t].chunks) {
      if (!trace.chunks[use.chunk.value].holds_activations()) continue;
      const Moment now(static_cast<int64_t>(t));
      if (use.writes) {
        plan.actions[t].push_back({ActionKind::kFetch, use.chunk, now});
      } else {
        plan.actions[t + 1].push_back({ActionKind::kDrop, use.chunk, now});
      }
    }
  }
  return plan;
}

}  // namespace castor
