#include "cli/live/live_history.h"

#include <algorithm>
#include <cmath>

namespace castor::cli {

LivePoint Merge(const LivePoint& a, const LivePoint& b) {
  if (a.steps == 0) return b;
  if (b.steps == 0) return a;
  LivePoint both = b;
  both.steps = a.steps + b.steps;
  const double share =
      static_cast<double>(b.steps) / static_cast<double>(both.steps);
  // The loss of a step that was skipped may be none.
  const auto mean = [share](double x, double y) {
    if (!std::isfinite(x)) return y;
    return std::isfinite(y) ? x + (y - x) * share : x;
  };
  both.loss = mean(a.loss, b.loss);
  both.seconds = mean(a.seconds, b.seconds);
  both.stall_seconds = mean(a.stall_seconds, b.stall_seconds);
  both.h2d_bytes = mean(a.h2d_bytes, b.h2d_bytes);
  both.d2h_bytes = mean(a.d2h_bytes, b.d2h_bytes);
  both.device_budget_bytes =
      std::max(a.device_budget_bytes, b.device_budget_bytes);
  both.device_bytes = std::max(a.device_bytes, b.device_bytes);
  both.device_peak_bytes = std::max(a.device_peak_bytes, b.device_peak_bytes);
  both.host_bytes = std::max(a.host_bytes, b.host_bytes);
  both.warmup = a.warmup || b.warmup;
  return both;
}

void LiveHistory::Add(const LivePoint& step) {
  latest_ = step;
  open_ = Merge(open_, step);
  if (open_.steps < every_) return;
  points_.push_back(open_);
  open_ = LivePoint();
  if (static_cast<int64_t>(points_.size()) < capacity_) return;
  for (size_t i = 0; i < points_.size() / 2; ++i) {
    points_[i] = Merge(points_[2 * i], points_[2 * i + 1]);
  }
  points_.resize(points_.size() / 2);
  every_ *= 2;
}

}  // namespace castor::cli
