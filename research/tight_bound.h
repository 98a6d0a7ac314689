// The linear relaxation of all that a plan decides (benchmarks/linear_bound.h),
// and what follows from the order of a step's work: the step is also as long as
// a chunk takes once around from its first use over its gradients, its update
// on the host and its fetch (turns.h), or as all of its windows take
// (windows.h).
#ifndef CASTOR_RESEARCH_TIGHT_BOUND_H_
#define CASTOR_RESEARCH_TIGHT_BOUND_H_

#include <memory>
#include <vector>

#include "benchmarks/linear_bound.h"
#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

// Its objective is the step's length.
class TightBound : public LinearBound {
 public:
  // `request` outlives it.
  explicit TightBound(const PlanRequest& request);
  ~TightBound() override;

 private:
  class Turns;    // research/turns.h
  class Windows;  // research/windows.h

  void SetMore(const Plan& plan, const PlanCost& cost,
               std::vector<double>* point) const override;

  std::unique_ptr<const Windows> windows_;  // null: there are none
};

}  // namespace castor

#endif  // CASTOR_RESEARCH_TIGHT_BOUND_H_
