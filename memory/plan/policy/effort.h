// Limits the number of plans that a search for the best one makes.
//
// A search must not outlast the steps that its plan is for. So it may take
// about the time of kWorthSteps steps, but at least a fiftieth of a second and
// at most about a second. No clock is read: the length of a step is that of the
// simplest plan, simulated, and the time to make a plan is a constant. So the
// same request always has the same plan, on all ranks of a run. The limit does
// not decide if a request has a plan at all.
#ifndef CASTOR_MEMORY_PLAN_POLICY_EFFORT_H_
#define CASTOR_MEMORY_PLAN_POLICY_EFFORT_H_

#include <cstdint>

namespace castor {

// Steps that the search for a plan may last, and searches that the choice of a
// step's blocks may make (block_search.h).
inline constexpr double kWorthSteps = 8, kWorthSearches = 3;

// The number of plans that a sketch makes (PlacementPolicy::sketch), and every
// search at least.
inline constexpr int64_t kSketchPlans = 12;

// Steps of more operators are searched on a short step, where they have one
// (short_step.h).
inline constexpr int64_t kLongStep = 4 << 10;

// Returns how much may be planned for a step that takes `step_ns`: a number of
// operators, summed over all plans.
int64_t WorthOperators(double step_ns);

// Returns the number of plans to make for a step of `operators` operators that
// takes `step_ns`.
int64_t PlansFor(int64_t operators, double step_ns);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_EFFORT_H_
