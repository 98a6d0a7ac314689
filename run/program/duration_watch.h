// When the steps of a plan have settled, and when they have drifted from what
// the plan foresaw: the moments at which it is worth asking the planner again.
//
// A plan is first made from a few steps of warm-up, with cold caches and first
// calls in them, and under a plan that leaves the device idle at times. So
// steps on a new plan are watched until they do not get faster any more, at
// least settling_steps of them; then, again and again, until drift_steps in a
// row took over kDrift more or less than was foreseen. In both cases the
// planner is asked with the medians over the latest of these steps. Where the
// plan in force is found to be as good as any it stays, with a new forecast; if
// steps drift from that too, the next question waits for twice as many of them.
//
// Seconds are those that all ranks agree on, so that they ask together.
#ifndef CASTOR_RUN_PROGRAM_DURATION_WATCH_H_
#define CASTOR_RUN_PROGRAM_DURATION_WATCH_H_

#include <cstdint>
#include <deque>
#include <utility>

#include "memory/plan/simulate/simulator.h"
#include "run/program/duration_meter.h"
#include "run/program/overhead_meter.h"

namespace castor {

// Counts of steps.
struct WatchLimits {
  int64_t settling_steps = 4;  // at least
  int64_t most_settling_steps = 12;
  int64_t drift_steps = 8;
};

class DurationWatch {
 public:
  static constexpr double kFaster = 0.05;  // by less, steps are as fast
  static constexpr double kDrift = 0.1;
  // The share of the step that a new plan must save to replace another.
  static constexpr double kGain = 0.03;

  DurationWatch() = default;
  explicit DurationWatch(const WatchLimits& limits)
      : limits_(limits), drift_steps_(limits.drift_steps) {}

  // A plan with this forecast is in force from now on; nothing is known of it.
  void BeginPlan(double foreseen_seconds);
  // The plan stays, with this forecast from settled durations.
  void KeepPlan(double foreseen_seconds);

  // A step that followed the plan is over, with these durations and overheads
  // of this rank's.
  void AddDurations(DurationMeter durations, OverheadMeter overheads = {});
  // A step that followed the plan took this long.
  void AddStep(double seconds);

  // Returns whether to ask the planner again.
  bool due() const { return due_; }
  // Hands over the durations and the overheads of the latest steps, with which
  // the planner is to be asked.
  std::pair<DurationMeter, OverheadMeter> TakeLatest();

 private:
  WatchLimits limits_;
  double foreseen_seconds_ = 0;
  bool settled_ = false;
  bool due_ = false;
  int64_t steps_ = 0;                                // on the plan
  double fastest_ = 0;                               // of them
  int64_t drifting_ = 0;                             // in a row
  int64_t drift_steps_ = WatchLimits().drift_steps;  // that are too many
  std::deque<std::pair<DurationMeter, OverheadMeter>> latest_;
};

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_DURATION_WATCH_H_
