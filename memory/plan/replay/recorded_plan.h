// Converts plans to the records that a trace keeps of them, and back.
#ifndef CASTOR_MEMORY_PLAN_REPLAY_RECORDED_PLAN_H_
#define CASTOR_MEMORY_PLAN_REPLAY_RECORDED_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulator.h"
#include "tracer/plan_record.h"

namespace castor {

// Records `plan`, which was made from `request` and passed CheckPlan; `cost`
// comes from SimulatePlan. `trace_index` is that of the request's trace in the
// file. Computes the lower bound (LeastFetchedBytes), in a small part of the
// time that planning took.
PlanRecord RecordPlan(const Plan& plan, const PlanRequest& request,
                      const PlanCost& cost, int64_t trace_index, bool warmup);

// Records a request that was refused, without a plan.
PlanRecord RecordRequest(const PlacementPolicy* policy,
                         const PlanRequest& request, int64_t trace_index);

// Returns the request that was recorded, for `trace` (not null, outlives the
// request); planning it again gives the same plan.
PlanRequest RequestOf(const PlanRecord& record, const StepTrace* trace);

// Returns the plan that was recorded, which CheckPlan has yet to check.
// InvalidArgument: an unknown policy; a chunk or a moment that `trace` does not
// have.
absl::StatusOr<Plan> PlanOf(const PlanRecord& record, const StepTrace& trace);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_REPLAY_RECORDED_PLAN_H_
