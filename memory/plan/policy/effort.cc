#include "memory/plan/policy/effort.h"

#include <algorithm>

namespace castor {
namespace {

// The time to plan and simulate one operator in one plan: 250 to 900 ns on the
// machines of docs/measurement.md, "Planning".
constexpr double kOperatorNs = 500;

// The most plans for any step, and for a step of more than kLongStep operators
// where the product of both is larger.
constexpr int64_t kMostPlans = 400, kMostPlansOfLongestSteps = 40;
// The least operators, summed over plans, that may be planned for a step.
constexpr int64_t kLeastOperators = 40'000;

}  // namespace

int64_t WorthOperators(double step_ns) {
  constexpr double kMost = 1e15;  // a file may say that a step takes years
  const double worth = std::min(kMost, kWorthSteps * step_ns / kOperatorNs);
  return std::max(kLeastOperators, static_cast<int64_t>(worth));
}

int64_t PlansFor(int64_t operators, double step_ns) {
  operators = std::max<int64_t>(1, operators);
  const int64_t most = std::clamp(kMostPlans * kLongStep / operators,
                                  kMostPlansOfLongestSteps, kMostPlans);
  return std::clamp(WorthOperators(step_ns) / operators, kSketchPlans, most);
}

}  // namespace castor
