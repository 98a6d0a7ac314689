// The three placement policies, for requests that were admitted.
//
// Each is a pure function and always finds a plan (memory/plan/admission.h).
#ifndef CASTOR_MEMORY_PLAN_POLICIES_H_
#define CASTOR_MEMORY_PLAN_POLICIES_H_

#include "memory/plan/admission.h"
#include "memory/plan/plan.h"

namespace castor {

Plan PlanCuda(const PlanRequest& request, const Admission& admission);
Plan PlanCpu(const PlanRequest& request, const Admission& admission);
Plan PlanAuto(const PlanRequest& request, const Admission& admission);

// The cpu policy's schedule for any sides, which auto must beat.
Plan PlanOneOperatorAhead(PlacementPolicy policy, const PlanRequest& request,
                          const std::vector<Side>& side);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICIES_H_
