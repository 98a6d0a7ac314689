// PatrickStar's chunks as a baseline: research/baseline_policies.h lists its
// sources.
//
// A chunk comes when an operator uses it; where there is too little room then,
// chunks leave, the one first whose next use is the farthest, in this step or
// in the next one. States of the first chunks of the order are on the device in
// the *margin*: the bytes that are left beside the greatest non-model bytes and
// the payloads of all chunks.
#ifndef CASTOR_RESEARCH_PATRICKSTAR_POLICY_H_
#define CASTOR_RESEARCH_PATRICKSTAR_POLICY_H_

#include <cstdint>
#include <vector>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/plan.h"

namespace castor {

// Device bytes beside the greatest non-model bytes and all payloads; may be
// negative.
int64_t PatrickStarMarginBytes(const PlanRequest& request);

// The plan with these sides, which must have been admitted.
Plan PlanPatrickStarWith(const PlanRequest& request,
                         const std::vector<Side>& side);

// Returns the fastest plan over all shares of the margin that states may have.
Plan PlanPatrickStar(const PlanRequest& request, const Admission& admission);

}  // namespace castor

#endif  // CASTOR_RESEARCH_PATRICKSTAR_POLICY_H_
