// How many plans a search for the best one may make.
//
// A search must not outlast the steps that its plan is for. So it gets as many
// plans as take, as a rule, the time of kWorthSteps steps, or those that take a
// fiftieth of a second if these are more, and of no step more than take a
// second. Nobody reads a clock for that: how long a step takes is what is
// foreseen of the simplest plan, and how long a plan takes is a constant. So
// the same request always has the same plan, and all ranks of a run have the
// same. Whether a request has a plan at all does not depend on it.
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

// The longest step, in operators, that is searched through thoroughly in a
// second, beside other work.
inline constexpr int64_t kThoroughMoments = 4 << 10;

// How many steps the search for a plan may take, and how many searches choosing
// a step's blocks may (block_search.h).
inline constexpr double kWorthSteps = 8, kWorthSearches = 3;

struct SearchEffort {
  bool sketched = false;  // a dozen plans alone
  bool thorough = false;
  bool refined = false;  // at least a hundred plans
  int64_t few = 0;  // how many of those that were tried are searched through
  int64_t neighbours = 0;  // the most that are made of a plan
  int64_t plans = 0;       // how many there are before neighbours, more or less
  int64_t most_plans = 0;  // from that many on there are no more neighbours
};

// What a sketch takes (PlacementPolicy::sketch), in plans.
inline constexpr int64_t kSketchPlans = 12;

// What may be planned for a step of which one takes so long: the plans, each
// counted with the operators of its step.
int64_t WorthOperators(double step_ns);

// For a step of so many operators, of which one takes so long.
SearchEffort EffortFor(int64_t operators, double step_ns);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_POLICY_EFFORT_H_
