// A step with fewer micro batches, to search on.
//
// Micro batches that are alike are planned alike, so that what serves three of
// them serves many: a search over plans looks at the first, the second, which
// stands for all those in between, and the last with the updates.
#ifndef CASTOR_MEMORY_PLAN_POLICY_SHORT_STEP_H_
#define CASTOR_MEMORY_PLAN_POLICY_SHORT_STEP_H_

#include <cstdint>
#include <optional>

#include "memory/plan/plan.h"
#include "memory/plan/simulator.h"

namespace castor {

struct ShortStep {
  StepTrace trace;
  int64_t left_out = 0;  // micro batches
  // The moments of the one that stands for them, and where the last begins.
  int64_t middle = 0;
  int64_t last = 0;
};

// Absent where there are no more than three micro batches, or those in between
// are not alike but for their durations, which are those of the second one.
std::optional<ShortStep> Shorten(const StepTrace& trace);

// What a step costs at least and as a rule, as a plan is judged by.
struct StepEstimate {
  double step_ns = 0;
  double h2d_bytes = 0;
  double d2h_bytes = 0;
};

// What the whole step costs if a plan of the short one costs `cost`: what is
// left out takes as long as from the middle one's start to the last one's, and
// no less than any resource works for it.
StepEstimate EstimateWhole(const ShortStep& step, const Plan& plan,
                           const PlanRequest& request, const PlanCost& cost);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_SHORT_STEP_H_
