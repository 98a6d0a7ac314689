// The common part of baselines with knobs. Each gets the setting with which its
// simulated step is the fastest, which nobody who runs such a system could find
// out without trying.
#ifndef CASTOR_RESEARCH_BASELINE_SEARCH_H_
#define CASTOR_RESEARCH_BASELINE_SEARCH_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "memory/plan/bounds/admission.h"
#include "memory/plan/plan.h"

namespace castor {

// Returns the length of a simulated step. The last of few steps may still
// profit from queues that were empty at the start, so the length is at least
// the time for which the busiest resource works.
int64_t SimulatedStepNs(const Plan& plan, const PlanRequest& request);

// Returns the sides with which the first chunks of the order, as many as fit,
// have their optimizer states in `bytes`; the sides that were admitted where
// more do not fit, in evaluation, and where the request fixes the sides.
std::vector<Side> FirstSides(const PlanRequest& request,
                             const Admission& admission, double bytes);

// The different FirstSides of bytes from none to `most_bytes`, in `steps` equal
// steps.
std::vector<std::vector<Side>> FirstSidesUpTo(const PlanRequest& request,
                                              const Admission& admission,
                                              double most_bytes, int steps);

// Keeps the fastest of the plans that it is given; the first of equals.
class FastestPlan {
 public:
  // The request outlives this.
  explicit FastestPlan(const PlanRequest& request) : request_(request) {}

  void Enter(Plan plan);
  // The fastest of the plans that were entered. At least one was.
  const Plan& plan() const { return plan_; }

 private:
  const PlanRequest& request_;
  Plan plan_;
  int64_t step_ns_ = std::numeric_limits<int64_t>::max();
};

}  // namespace castor

#endif  // CASTOR_RESEARCH_BASELINE_SEARCH_H_
