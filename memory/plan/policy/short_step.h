// A step with fewer micro batches, on which a plan is searched.
//
// Micro batches that are alike are planned alike, so a plan for three of them
// serves many: the short step has the first one, the second, which stands for
// all those in between, and the last with the updates.
#ifndef CASTOR_MEMORY_PLAN_POLICY_SHORT_STEP_H_
#define CASTOR_MEMORY_PLAN_POLICY_SHORT_STEP_H_

#include <cstdint>
#include <optional>

#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

struct ShortStep {
  StepTrace trace;
  int64_t left_out = 0;  // micro batches
  // The first moments of the second micro batch and of the last.
  int64_t middle = 0;
  int64_t last = 0;
};

// Returns the short step; absent where there are no more than three micro
// batches, or those in between differ in more than their durations, for which
// the second one's are taken.
std::optional<ShortStep> Shorten(const StepTrace& trace);

// The cost of a step by which a plan is judged.
struct StepEstimate {
  double step_ns = 0;
  double h2d_bytes = 0;
  double d2h_bytes = 0;
};

// Returns the cost of the whole step if a plan of the short one costs `cost`.
// Each micro batch left out takes as long as from the second one's start to the
// last one's; the step takes no less than the work of any resource.
StepEstimate EstimateWhole(const ShortStep& step, const Plan& plan,
                           const PlanRequest& request, const PlanCost& cost);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_SHORT_STEP_H_
