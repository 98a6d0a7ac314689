// Decides whether a step's updates may run before its norm is known, from the
// norms of earlier steps.
//
// Every step's norm tells whether such updates were, or would have been, in
// vain: a *miss*, when gradients were clipped or the step was skipped. So they
// run in a step if as many steps in a row before it were no misses as the gate
// waits for. Each miss that cost something doubles that number; as many steps
// ahead without one halve it again. A run that is always clipped never runs
// ahead, one that is clipped now and then hardly ever.
//
// It depends on norms alone, not on time: all ranks of a run decide alike.
#ifndef CASTOR_RUN_PROGRAM_SPECULATION_GATE_H_
#define CASTOR_RUN_PROGRAM_SPECULATION_GATE_H_

#include <algorithm>
#include <cstdint>

namespace castor {

class SpeculationGate {
 public:
  // How many steps ahead miss_rate looks back on.
  static constexpr int64_t kWindow = 32;

  // `first_wait`: how many steps in a row it waits for at first, at least;
  // `longest_wait`: at most.
  explicit SpeculationGate(int64_t first_wait = 2, int64_t longest_wait = 1024)
      : first_wait_(first_wait),
        longest_wait_(longest_wait),
        wait_(first_wait) {}

  // The next step in order is over; `ahead`: updates ran before its norm.
  void AddStep(bool missed, bool ahead) {
    in_row_ = missed ? 0 : in_row_ + 1;
    if (!ahead) return;
    steps_ahead_ = std::min(steps_ahead_ + 1, kWindow);
    miss_rate_ +=
        ((missed ? 1.0 : 0.0) - miss_rate_) / static_cast<double>(steps_ahead_);
    if (missed) {
      wait_ = std::min(std::max<int64_t>(1, 2 * wait_), longest_wait_);
      ahead_in_row_ = 0;
    } else if (++ahead_in_row_ >= wait_) {
      wait_ = std::max(first_wait_, wait_ / 2);
      ahead_in_row_ = 0;
    }
  }

  bool open() const { return in_row_ >= wait_; }
  // The share of the latest steps ahead that were misses: their mean, in which
  // older ones fade.
  double miss_rate() const { return miss_rate_; }

 private:
  int64_t first_wait_;
  int64_t longest_wait_;
  int64_t wait_;
  int64_t in_row_ = 0;        // latest steps that were no misses
  int64_t ahead_in_row_ = 0;  // of steps ahead, since the wait changed
  int64_t steps_ahead_ = 0;   // at most kWindow
  double miss_rate_ = 0;
};

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_SPECULATION_GATE_H_
