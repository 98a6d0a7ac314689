// How each policy plans what was admitted (PlacementPolicy::plan). For this
// folder's table, and for the planner.
#ifndef CASTOR_MEMORY_PLAN_POLICY_SCHEDULES_H_
#define CASTOR_MEMORY_PLAN_POLICY_SCHEDULES_H_

#include <vector>

#include "memory/plan/admission.h"
#include "memory/plan/plan.h"

namespace castor {

Plan PlanCuda(const PlanRequest& request, const Admission& admission);
Plan PlanCpu(const PlanRequest& request, const Admission& admission);
Plan PlanAuto(const PlanRequest& request, const Admission& admission);

// The cpu policy's schedule for any sides. It is what auto must beat, and what
// takes the place of a plan that fails its proof.
Plan PlanOneOperatorAhead(const PlanRequest& request,
                          const std::vector<Side>& side);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_SCHEDULES_H_
