#include "cli/train/step_figures.h"

#include <algorithm>

#include "base/median.h"

namespace castor::cli {
namespace {

// Every second one, from the first on.
template <typename T>
void Halve(std::vector<T>& values) {
  size_t kept = 0;
  for (size_t i = 0; i < values.size(); i += 2) values[kept++] = values[i];
  values.resize(kept);
}

}  // namespace

void StepSample::Add(const StepReport& step) {
  if (seen_++ % every_ != 0) return;
  if (size() == kMost) {
    // kMost is even, so this step is the next of every second one.
    Halve(seconds_);
    Halve(stall_seconds_);
    Halve(h2d_bytes_);
    Halve(d2h_bytes_);
    Halve(sent_bytes_);
    Halve(received_bytes_);
    every_ *= 2;
  }
  seconds_.push_back(step.seconds);
  stall_seconds_.push_back(step.stall_seconds);
  h2d_bytes_.push_back(step.h2d_bytes);
  d2h_bytes_.push_back(step.d2h_bytes);
  sent_bytes_.push_back(step.network_sent_bytes);
  received_bytes_.push_back(step.network_received_bytes);
}

SteadyFigures StepSample::Medians() const {
  return {.step_seconds = Median(seconds_),
          .stall_seconds = Median(stall_seconds_),
          .h2d_bytes = Median(h2d_bytes_),
          .d2h_bytes = Median(d2h_bytes_),
          .sent_bytes = Median(sent_bytes_),
          .received_bytes = Median(received_bytes_)};
}

void StepFigures::Add(const StepReport& step) {
  losses_.push_back(step.loss);
  last_ = step;
  if (!step.overflow.empty()) ++skipped_;
  network_wait_seconds_ += step.network_wait_seconds;
  const size_t ranks = step.late_rank_seconds.size();
  late_rank_seconds_.resize(std::max(late_rank_seconds_.size(), ranks));
  for (size_t i = 0; i < ranks; ++i) {
    late_rank_seconds_[i] += step.late_rank_seconds[i];
  }
  (step.warmup ? warmup_ : steady_).Add(step);
}

SteadyFigures StepFigures::Steady() const {
  return (steady_.empty() ? warmup_ : steady_).Medians();
}

}  // namespace castor::cli
