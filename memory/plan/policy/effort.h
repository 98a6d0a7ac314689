// Limits the number of plans that a search for the best one may make.
//
// A search must not outlast the steps that its plan is for. So it may take
// about the time of kWorthSteps steps, but at least a fiftieth of a second and
// at most a second. No clock is read: the length of a step is that of the
// simplest plan, simulated, and the time to make a plan is a constant. So the
// same request always has the same plan, on all ranks of a run. The limit does
// not decide if a request has a plan at all.
//
//   plans for the step   what is searched
//   400 and more         thoroughly: all tunings, then neighbours of the best
//   100 and more         fewer tunings, more shares of the room, neighbours
//    40 and more         few tunings and shares; so are steps of so many
//                        operators that there is time for no more
//   fewer                a dozen plans (SketchAuto)
#ifndef CASTOR_MEMORY_PLAN_POLICY_EFFORT_H_
#define CASTOR_MEMORY_PLAN_POLICY_EFFORT_H_

#include <cstdint>

namespace castor {

// The longest step, in operators, of which a thorough search takes at most a
// second, beside other work.
inline constexpr int64_t kThoroughMoments = 4 << 10;

// Steps that the search for a plan may last, and searches that the choice of a
// step's blocks may make (block_search.h).
inline constexpr double kWorthSteps = 8, kWorthSearches = 3;

struct SearchEffort {
  bool sketched = false;  // only a dozen plans
  bool thorough = false;
  bool refined = false;    // at least a hundred plans
  int64_t few = 0;         // tried choices that are searched through
  int64_t neighbours = 0;  // the most to make
  int64_t plans = 0;       // about as many are made before neighbours
  int64_t most_plans = 0;  // no neighbours from there on
};

// The number of plans that a sketch makes (PlacementPolicy::sketch).
inline constexpr int64_t kSketchPlans = 12;

// Returns how much may be planned for a step that takes `step_ns`: a number of
// operators, summed over all plans.
int64_t WorthOperators(double step_ns);

// Returns the effort for a step of `operators` operators that takes `step_ns`.
SearchEffort EffortFor(int64_t operators, double step_ns);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_EFFORT_H_
