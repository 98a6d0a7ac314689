#include "run/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace castor {
namespace {

// g(i) for i < W.
double Warmup(const SchedulerConfig& scheduler, double i) {
  const double steps =
      static_cast<double>(std::max<int64_t>(2, scheduler.warmup_num_steps));
  if (scheduler.warmup_type == WarmupType::kLinear) return i / steps;
  return std::log(i + 1) / std::log(steps);
}

}  // namespace

double LearningRate(const SchedulerConfig& scheduler, double lr, int64_t step) {
  CASTOR_CHECK(step >= 1);
  if (scheduler.type == SchedulerType::kConstant) return lr;
  const bool ends = scheduler.type == SchedulerType::kWarmupDecay ||
                    scheduler.type == SchedulerType::kWarmupCosine;
  const int64_t index =
      ends ? std::min(step - 1, scheduler.total_num_steps) : step - 1;
  // DeepSpeed takes a warm-up of one step for one of two, and so do we.
  const int64_t warmup_steps =
      scheduler.warmup_num_steps == 1 ? 2 : scheduler.warmup_num_steps;
  const double i = static_cast<double>(index);
  const double w = static_cast<double>(warmup_steps);
  const double n = static_cast<double>(scheduler.total_num_steps);
  const double min = scheduler.warmup_min_lr;
  const double max = scheduler.warmup_max_lr;
  const bool warm = index >= warmup_steps;

  if (scheduler.type == SchedulerType::kWarmupCosine) {
    if (!warm) {
      const double r = scheduler.warmup_min_ratio;
      return lr * (r + (1 - r) * Warmup(scheduler, i));
    }
    const double c = scheduler.cos_min_ratio;
    const double x = std::min(1.0, (i - w + 1) / std::max(1.0, n - w));
    return lr * (c + (1 - c) * (1 + std::cos(std::numbers::pi * x)) / 2);
  }
  if (!warm) return min + (max - min) * Warmup(scheduler, i);
  switch (scheduler.type) {
    case SchedulerType::kWarmupDecay:
      return min + (max - min) * std::max(0.0, n - i) / std::max(1.0, n - w);
    case SchedulerType::kWarmupInverseSqrt:
      return max * std::sqrt(std::max(w, 1.0) / std::max(i, 1.0));
    default:
      return max;
  }
}

}  // namespace castor
