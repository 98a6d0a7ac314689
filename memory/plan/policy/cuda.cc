// Everything on the device, always: no action in the steady state.
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
    // An update leaves the payload dirty; frozen parameters never change.
    plan.initial.push_back({ChunkId(c), plan.side[c] == Side::kDevice});
  }
  plan.actions.resize(trace.ops.size() + 1);
  return plan;
}

}  // namespace castor
