// Between plans and the records that a trace keeps of them.
#ifndef CASTOR_MEMORY_PLAN_RECORDED_PLAN_H_
#define CASTOR_MEMORY_PLAN_RECORDED_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "memory/plan/plan.h"
#include "memory/plan/simulator.h"
#include "tracer/plan_record.h"

namespace castor {

// `plan` was made from `request` and passed CheckPlan, `cost` is SimulatePlan's
// of both. `trace_index`: the request's trace in the file. The lower bound is
// computed here: LeastFetchedBytes, a small part of what the plan took.
PlanRecord RecordPlan(const Plan& plan, const PlanRequest& request,
                      const PlanCost& cost, int64_t trace_index, bool warmup);

// Records a request that was refused: what was asked, and nothing decided.
PlanRecord RecordRequest(const PlacementPolicy* policy,
                         const PlanRequest& request, int64_t trace_index);

// What was asked for, of `trace` (not null, outlives the request): equal to the
// request that was recorded, so that planning it again gives the same plan.
PlanRequest RequestOf(const PlanRecord& record, const StepTrace* trace);

// What was decided. InvalidArgument: an unknown policy; a chunk or a moment
// that `trace` does not have. Whether it is a plan that works is CheckPlan's to
// say.
absl::StatusOr<Plan> PlanOf(const PlanRecord& record, const StepTrace& trace);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_RECORDED_PLAN_H_
