#include "cli/train/step_figures.h"

#include <algorithm>
#include <cmath>

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
  terms_.resize(std::max(terms_.size(), step.terms.size()));
  for (size_t k = 0; k < step.terms.size(); ++k) {
    terms_[k].push_back(step.terms[k]);
  }
  last_ = step;
  if (!step.overflow.empty()) ++skipped_;
  network_wait_seconds_ += step.network_wait_seconds;
  const size_t ranks = step.late_rank_seconds.size();
  late_rank_seconds_.resize(std::max(late_rank_seconds_.size(), ranks));
  for (size_t i = 0; i < ranks; ++i) {
    late_rank_seconds_[i] += step.late_rank_seconds[i];
  }
  tokens_ += step.tokens;
  Samples& samples = samples_[step.length];
  ++samples.steps;
  (step.warmup ? samples.warmup : samples.steady).Add(step);
}

SteadyFigures StepFigures::Steady() const {
  if (samples_.empty()) return {};
  const auto all = static_cast<double>(losses_.size());
  if (samples_.size() == 1) {
    SteadyFigures figures = samples_.begin()->second.Medians();
    figures.tokens = static_cast<double>(tokens_) / all;
    return figures;
  }
  SteadyFigures sum = {.tokens = static_cast<double>(tokens_) / all};
  double h2d = 0, d2h = 0, sent = 0, received = 0;
  for (const auto& [length, samples] : samples_) {
    const SteadyFigures each = samples.Medians();
    const double part = static_cast<double>(samples.steps) / all;
    sum.step_seconds += part * each.step_seconds;
    sum.stall_seconds += part * each.stall_seconds;
    h2d += part * static_cast<double>(each.h2d_bytes);
    d2h += part * static_cast<double>(each.d2h_bytes);
    sent += part * static_cast<double>(each.sent_bytes);
    received += part * static_cast<double>(each.received_bytes);
  }
  sum.h2d_bytes = std::llround(h2d);
  sum.d2h_bytes = std::llround(d2h);
  sum.sent_bytes = std::llround(sent);
  sum.received_bytes = std::llround(received);
  return sum;
}

std::map<int64_t, StepFigures::OfLength> StepFigures::lengths() const {
  std::map<int64_t, OfLength> lengths;
  for (const auto& [length, samples] : samples_) {
    if (length == 0) continue;
    lengths[length] = {.steps = samples.steps,
                       .step_seconds = samples.Medians().step_seconds};
  }
  return lengths;
}

}  // namespace castor::cli
