#include "run/checkpoint/best_state.h"

#include <cmath>
#include <limits>

namespace castor {

bool Judge(BestMetric metric, double threshold, int64_t step, double value,
           BestState* state) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool more_is_better = metric == BestMetric::kAccuracy;
  const double best = state->step > 0  ? state->value
                      : more_is_better ? -kInfinity
                                       : kInfinity;
  const bool better = more_is_better ? value > best : value < best;
  const bool gain =
      state->evaluations == 0 || (better && std::abs(value - best) > threshold);
  ++state->evaluations;
  state->is_due = false;
  state->without_gain = gain ? 0 : state->without_gain + 1;
  if (!better) return false;
  state->step = step;
  state->value = value;
  return true;
}

}  // namespace castor
