#include "memory/plan/policy/effort.h"

#include <algorithm>

namespace castor {
namespace {

// The time to plan and simulate one operator in one plan: 250 to 900 ns on the
// machines of docs/measurement.md, "Planning".
constexpr double kOperatorNs = 500;

constexpr int64_t kThoroughPlans = 400, kRefinedPlans = 100, kFewPlans = 40;
// The least and the most operators, summed over plans, that may be planned for
// a step.
constexpr int64_t kLeastOperators = 40'000;
constexpr int64_t kMostOperators = kThoroughPlans * kThoroughMoments;
// The number of the best tried choices that are searched through: at least, and
// for the shortest steps.
constexpr int64_t kFewest = 2, kMost = 8;
// The most neighbours that are made of a plan, and their number per hundred
// other plans.
constexpr int64_t kMostNeighbours = 500, kNeighboursInHundred = 48;

}  // namespace

int64_t WorthOperators(double step_ns) {
  constexpr double kMost = 1e15;  // a file may say that a step takes years
  const double worth = std::min(kMost, kWorthSteps * step_ns / kOperatorNs);
  return std::max(kLeastOperators, static_cast<int64_t>(worth));
}

SearchEffort EffortFor(int64_t operators, double step_ns) {
  operators = std::max<int64_t>(1, operators);
  const int64_t worth = WorthOperators(step_ns);
  if (worth / operators < kFewPlans) {
    return {
        .sketched = true, .plans = kSketchPlans, .most_plans = kSketchPlans};
  }
  const int64_t most = std::min(worth, kMostOperators);
  const int64_t plans = most / operators;
  return {.thorough = plans >= kThoroughPlans,
          .refined = plans >= kRefinedPlans,
          .few = std::clamp(kFewest * most / (kThoroughPlans * operators),
                            kFewest, kMost),
          .neighbours = std::min(kMostNeighbours,
                                 most * kNeighboursInHundred / 100 / operators),
          .plans = std::clamp(plans, kFewPlans, kThoroughPlans),
          .most_plans = worth / operators};
}

}  // namespace castor
