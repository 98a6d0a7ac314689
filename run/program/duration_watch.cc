#include "run/program/duration_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace castor {

void DurationWatch::BeginPlan(double foreseen_seconds) {
  *this = DurationWatch(limits_);
  foreseen_seconds_ = foreseen_seconds;
}

void DurationWatch::KeepPlan(double foreseen_seconds) {
  // The first time the planner was not asked because of drift.
  if (settled_) drift_steps_ *= 2;
  settled_ = true;
  due_ = false;
  drifting_ = 0;
  foreseen_seconds_ = foreseen_seconds;
}

void DurationWatch::AddDurations(DurationMeter durations,
                                 OverheadMeter overheads) {
  latest_.emplace_back(std::move(durations), std::move(overheads));
  const int64_t most = settled_ ? limits_.drift_steps : limits_.settling_steps;
  while (static_cast<int64_t>(latest_.size()) > most) latest_.pop_front();
}

void DurationWatch::AddStep(double seconds) {
  ++steps_;
  const bool faster = steps_ == 1 || seconds < fastest_ * (1 - kFaster);
  fastest_ = steps_ == 1 ? seconds : std::min(fastest_, seconds);
  if (!settled_) {
    due_ = steps_ >= limits_.most_settling_steps ||
           (steps_ >= limits_.settling_steps && !faster);
    return;
  }
  const bool drifts =
      std::abs(seconds - foreseen_seconds_) > kDrift * foreseen_seconds_;
  drifting_ = drifts ? drifting_ + 1 : 0;
  due_ = drifting_ >= drift_steps_;
}

std::pair<DurationMeter, OverheadMeter> DurationWatch::TakeLatest() {
  if (latest_.empty()) return {};
  auto [durations, overheads] = std::move(latest_.front());
  for (size_t i = 1; i < latest_.size(); ++i) {
    durations.Merge(latest_[i].first);
    overheads.Merge(latest_[i].second);
  }
  latest_.clear();
  return {std::move(durations), std::move(overheads)};
}

}  // namespace castor
