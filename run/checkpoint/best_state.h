// How far a run is in what its evaluations say: which of them was the best, and
// how many have been no better since. The rules are Hugging Face's: Trainer's
// for the best, EarlyStoppingCallback's for when to end.
#ifndef CASTOR_RUN_CHECKPOINT_BEST_STATE_H_
#define CASTOR_RUN_CHECKPOINT_BEST_STATE_H_

#include <cstdint>

#include "run/config/config.h"

namespace castor {

struct BestState {
  int64_t evaluations = 0;
  int64_t step = 0;  // after which the best one was; 0: none was yet
  double value = 0;  // its metric
  // How many in a row, up to the latest, were not better than the best before
  // them by more than the threshold.
  int64_t without_gain = 0;
  // The evaluation after the run's latest step was interrupted, and is still to
  // be made.
  bool is_due = false;

  friend bool operator==(const BestState&, const BestState&) = default;
};

// Takes note of an evaluation after `step`. Returns true if it is the best so
// far: better than the best before it, by however little. A NaN never is. One
// that is better by no more than `threshold` is the best, but no gain.
bool Judge(BestMetric metric, double threshold, int64_t step, double value,
           BestState* state);

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_BEST_STATE_H_
