#include "run/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace castor {
namespace {

constexpr double kTolerance = 1e-15;

SchedulerConfig Schedule(SchedulerType type, WarmupType warmup, int64_t w,
                         int64_t n) {
  SchedulerConfig scheduler;
  scheduler.type = type;
  scheduler.warmup_type = warmup;
  scheduler.warmup_num_steps = w;
  scheduler.total_num_steps = n;
  scheduler.warmup_min_lr = 0;
  scheduler.warmup_max_lr = 0.8;
  return scheduler;
}

TEST(LearningRate, IsConstantWithoutAScheduler) {
  EXPECT_EQ(LearningRate({}, 0.25, 1), 0.25);
  EXPECT_EQ(LearningRate({}, 0.25, 1'000'000), 0.25);
}

TEST(LearningRate, WarmsUpLinearlyAndStays) {
  auto s = Schedule(SchedulerType::kWarmup, WarmupType::kLinear, 4, 0);
  s.warmup_min_lr = 0.4;  // 0.4 + 0.4 * i / 4
  const double expected[] = {0.4, 0.5, 0.6, 0.7, 0.8, 0.8, 0.8};
  for (int step = 1; step <= 7; ++step) {
    EXPECT_NEAR(LearningRate(s, 9, step), expected[step - 1], kTolerance);
  }
}

TEST(LearningRate, WarmsUpByLogarithm) {
  // W = 4: ln(i + 1) / ln 4 = log2(i + 1) / 2.
  const auto s = Schedule(SchedulerType::kWarmup, WarmupType::kLog, 4, 0);
  EXPECT_NEAR(LearningRate(s, 9, 1), 0, kTolerance);
  EXPECT_NEAR(LearningRate(s, 9, 2), 0.8 * 0.5, kTolerance);
  EXPECT_NEAR(LearningRate(s, 9, 3), 0.8 * std::log2(3.0) / 2, kTolerance);
  EXPECT_NEAR(LearningRate(s, 9, 4), 0.8, kTolerance);  // log2(4) / 2 = 1
  EXPECT_EQ(LearningRate(s, 9, 5), 0.8);
}

TEST(LearningRate, DecaysLinearlyToNothing) {
  // W = 2, N = 6: (6 - i) / 4 from i = 2 on.
  auto s = Schedule(SchedulerType::kWarmupDecay, WarmupType::kLinear, 2, 6);
  const double expected[] = {0, 0.4, 0.8, 0.6, 0.4, 0.2, 0, 0, 0};
  for (int step = 1; step <= 9; ++step) {
    EXPECT_NEAR(LearningRate(s, 9, step), expected[step - 1], kTolerance)
        << step;
  }
  s.warmup_num_steps = 6;  // nothing left to decay over: N - W counts as 1
  EXPECT_NEAR(LearningRate(s, 9, 6), 0.8 * 5 / 6, kTolerance);
  EXPECT_NEAR(LearningRate(s, 9, 7), 0, kTolerance);
}

TEST(LearningRate, FollowsACosineFromTheOptimizersRate) {
  // W = 2, N = 6, x = (i - 1) / 4: cos(pi x) = 1/sqrt2, 0, -1/sqrt2, -1.
  auto s = Schedule(SchedulerType::kWarmupCosine, WarmupType::kLinear, 2, 6);
  s.cos_min_ratio = 0.5;
  s.warmup_min_ratio = 0.25;
  const double half = std::sqrt(0.5);
  const double expected[] = {0.25,
                             0.625,  // 0.25 + 0.75 / 2
                             0.5 + 0.25 * (1 + half),
                             0.75,
                             0.5 + 0.25 * (1 - half),
                             0.5,
                             0.5,
                             0.5};
  for (int step = 1; step <= 8; ++step) {
    EXPECT_NEAR(LearningRate(s, 2, step), 2 * expected[step - 1], kTolerance)
        << step;
  }
}

TEST(LearningRate, FallsWithTheInverseSquareRoot) {
  const auto s =
      Schedule(SchedulerType::kWarmupInverseSqrt, WarmupType::kLinear, 4, 0);
  EXPECT_NEAR(LearningRate(s, 9, 3), 0.4, kTolerance);  // i = 2 of 4
  EXPECT_NEAR(LearningRate(s, 9, 5), 0.8, kTolerance);
  EXPECT_NEAR(LearningRate(s, 9, 17), 0.4, kTolerance);  // sqrt(4 / 16)
  EXPECT_NEAR(LearningRate(s, 9, 401), 0.08, kTolerance);
}

TEST(LearningRate, NeedsNoWarmup) {
  for (const WarmupType warmup : {WarmupType::kLog, WarmupType::kLinear}) {
    const auto at = [&](SchedulerType type, int64_t step) {
      return LearningRate(Schedule(type, warmup, 0, 4), 0.8, step);
    };
    EXPECT_EQ(at(SchedulerType::kWarmup, 1), 0.8);
    EXPECT_EQ(at(SchedulerType::kWarmupDecay, 1), 0.8);
    EXPECT_NEAR(at(SchedulerType::kWarmupDecay, 4), 0.2, kTolerance);
    EXPECT_EQ(at(SchedulerType::kWarmupInverseSqrt, 1), 0.8);
    EXPECT_NEAR(at(SchedulerType::kWarmupInverseSqrt, 5), 0.4, kTolerance);
  }
}

TEST(LearningRate, TakesAWarmupOfOneForTwo) {
  const auto s = Schedule(SchedulerType::kWarmup, WarmupType::kLinear, 1, 0);
  EXPECT_EQ(LearningRate(s, 9, 1), 0);
  EXPECT_EQ(LearningRate(s, 9, 2), 0.4);
  EXPECT_EQ(LearningRate(s, 9, 3), 0.8);
}

}  // namespace
}  // namespace castor
