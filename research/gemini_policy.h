// Gemini's auto placement as a baseline: research/baseline_policies.h lists its
// sources.
//
// The operators of a step are walked in their order, as Gemini meets them:
//
//   before each operator  its chunks that are not there are fetched; where it
//                         has too little room, chunks leave, the one first
//                         whose next use in this step is the farthest (of those
//                         that have none, the first chunk);
//   after that            chunks of the next operators are prefetched into the
//                         room that is left, in their order: no more chunks on
//                         their way than `max_prefetch`, none beyond the end of
//                         the step, and nothing leaves for them.
#ifndef CASTOR_RESEARCH_GEMINI_POLICY_H_
#define CASTOR_RESEARCH_GEMINI_POLICY_H_

#include <cstdint>
#include <vector>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/plan.h"

namespace castor {

// Named as in Gemini's configuration.
struct GeminiKnobs {
  int64_t max_prefetch = 0;
  double steady_cuda_cap_ratio = 0.9;
};

// The plan with these sides, which must have been admitted.
Plan PlanGeminiWith(const PlanRequest& request, const std::vector<Side>& side,
                    const GeminiKnobs& knobs);

// Returns the fastest plan over the knobs and over how many chunks have their
// states on the device.
Plan PlanGemini(const PlanRequest& request, const Admission& admission);

}  // namespace castor

#endif  // CASTOR_RESEARCH_GEMINI_POLICY_H_
