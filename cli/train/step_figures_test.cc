#include "cli/train/step_figures.h"

#include <gtest/gtest.h>

namespace castor::cli {
namespace {

StepReport Step(int64_t step, double seconds) {
  return {.step = step,
          .loss = static_cast<double>(step) / 2,
          .seconds = seconds,
          .stall_seconds = seconds / 4,
          .h2d_bytes = 3 * step,
          .d2h_bytes = 5 * step,
          .network_sent_bytes = 7 * step,
          .network_received_bytes = 11 * step};
}

TEST(StepFigures, AreMediansOfTheStepsAfterWarmUp) {
  StepFigures figures;
  EXPECT_TRUE(figures.empty());
  EXPECT_EQ(figures.Steady().step_seconds, 0);
  StepReport warmup = Step(1, 100);
  warmup.warmup = true;
  figures.Add(warmup);
  // A step of the warm-up counts where there is nothing else.
  EXPECT_EQ(figures.Steady().step_seconds, 100);
  for (const int64_t step : {2, 3, 4}) {
    figures.Add(Step(step, static_cast<double>(step)));
  }
  const SteadyFigures steady = figures.Steady();
  EXPECT_EQ(steady.step_seconds, 3);
  EXPECT_EQ(steady.stall_seconds, 0.75);
  EXPECT_EQ(steady.h2d_bytes, 9);
  EXPECT_EQ(steady.d2h_bytes, 15);
  EXPECT_EQ(steady.sent_bytes, 21);
  EXPECT_EQ(steady.received_bytes, 33);
  EXPECT_EQ(figures.losses(), (std::vector<double>{0.5, 1, 1.5, 2}));
  EXPECT_EQ(figures.last().step, 4);
}

TEST(StepFigures, WeighStepsOfSeveralLengthsByTheirNumber) {
  StepFigures figures;
  const auto add = [&](int64_t length, int64_t tokens, double seconds,
                       bool warmup) {
    StepReport step = Step(8, seconds);
    step.length = length;
    step.tokens = tokens;
    step.warmup = warmup;
    figures.Add(step);
  };
  add(64, 60, 100, /*warmup=*/true);
  add(64, 50, 8, /*warmup=*/false);
  // The only step of this length is one of the warm-up.
  add(128, 110, 16, /*warmup=*/true);
  add(64, 40, 4, /*warmup=*/false);
  add(64, 30, 6, /*warmup=*/false);
  // The medians are 6 s in four steps and 16 s in one.
  const SteadyFigures steady = figures.Steady();
  EXPECT_EQ(steady.step_seconds, (4 * 6.0 + 16) / 5);
  EXPECT_EQ(steady.tokens, 58);
  EXPECT_EQ(steady.h2d_bytes, 24);
  EXPECT_EQ(figures.lengths().at(64).steps, 4);
  EXPECT_EQ(figures.lengths().at(64).step_seconds, 6);
  EXPECT_EQ(figures.lengths().at(128).steps, 1);
  EXPECT_EQ(figures.lengths().size(), 2u);
}

TEST(StepFigures, SumUpWhatAllStepsWaitedForAndSkipped) {
  StepFigures figures;
  StepReport step = Step(1, 1);
  step.network_wait_seconds = 0.5;
  step.late_rank_seconds = {0.25};
  figures.Add(step);
  step.late_rank_seconds = {0, 0.125};
  step.overflow = "h.0.ln_1.weight";
  figures.Add(step);
  EXPECT_EQ(figures.network_wait_seconds(), 1);
  EXPECT_EQ(figures.late_rank_seconds(), (std::vector<double>{0.25, 0.125}));
  EXPECT_EQ(figures.skipped(), 1);
}

TEST(StepSample, StaysSmallAndEvenlySpread) {
  StepSample sample;
  constexpr int64_t kSteps = 1'000'001;
  for (int64_t i = 0; i < kSteps; ++i) {
    sample.Add(Step(i, static_cast<double>(i)));
    ASSERT_LE(sample.size(), StepSample::kMost);
  }
  EXPECT_GE(sample.size(), StepSample::kMost / 2);
  // The sample's median lies within one stride of the median of all.
  constexpr double kMiddle = (kSteps - 1) / 2;
  EXPECT_NEAR(sample.Medians().step_seconds, kMiddle,
              2.0 * kSteps / StepSample::kMost);
  EXPECT_EQ(sample.Medians().h2d_bytes,
            3 * static_cast<int64_t>(sample.Medians().step_seconds));
}

TEST(StepSample, IsExactAsLongAsItHoldsAll) {
  StepSample sample;
  for (int64_t i = StepSample::kMost; i > 0; --i) {
    sample.Add(Step(i, static_cast<double>(i)));
  }
  EXPECT_EQ(sample.size(), StepSample::kMost);
  EXPECT_EQ(sample.Medians().step_seconds, StepSample::kMost / 2);
}

}  // namespace
}  // namespace castor::cli
