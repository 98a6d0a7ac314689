#include "cli/live/live_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace castor::cli {
namespace {

LivePoint Step(int64_t step, double loss = 0) {
  LivePoint point;
  point.step = step;
  point.steps = 1;
  point.loss = loss;
  point.seconds = 1;
  point.device_bytes = step;
  return point;
}

TEST(LiveHistory, KeepsEachStepWhileThereIsRoom) {
  LiveHistory history(8);
  EXPECT_EQ(history.latest().steps, 0);
  for (int64_t step = 1; step <= 7; ++step) history.Add(Step(step, 1.0 / step));
  ASSERT_EQ(history.points().size(), 7u);
  EXPECT_EQ(history.every(), 1);
  for (int64_t step = 1; step <= 7; ++step) {
    EXPECT_EQ(history.points()[step - 1], Step(step, 1.0 / step));
  }
  EXPECT_EQ(history.latest(), Step(7, 1.0 / 7));
}

TEST(LiveHistory, MergesNeighboursWhenItIsFull) {
  LiveHistory history(4);
  for (int64_t step = 11; step <= 14; ++step) {
    history.Add(Step(step, static_cast<double>(step)));
  }
  ASSERT_EQ(history.points().size(), 2u);
  EXPECT_EQ(history.every(), 2);
  EXPECT_EQ(history.points()[0].step, 12);
  EXPECT_EQ(history.points()[0].steps, 2);
  EXPECT_EQ(history.points()[0].loss, 11.5);
  EXPECT_EQ(history.points()[0].seconds, 1);
  EXPECT_EQ(history.points()[0].device_bytes, 12);
  // A point begun is not shown before it is whole; the step itself is.
  history.Add(Step(15));
  EXPECT_EQ(history.points().size(), 2u);
  EXPECT_EQ(history.latest().step, 15);
  history.Add(Step(16));
  EXPECT_EQ(history.points().size(), 3u);
  EXPECT_EQ(history.points()[2].loss, 0);
}

TEST(LiveHistory, HasTheMeanOfAMillionStepsInBoundedRoom) {
  constexpr int64_t kSteps = 1'000'000, kCapacity = 256;
  LiveHistory history(kCapacity);
  for (int64_t step = 1; step <= kSteps; ++step) {
    history.Add(Step(step, static_cast<double>(step)));
    ASSERT_LT(static_cast<int64_t>(history.points().size()), kCapacity);
  }
  EXPECT_GE(static_cast<int64_t>(history.points().size()), kCapacity / 2 - 1);
  int64_t before = 0;
  for (const LivePoint& point : history.points()) {
    EXPECT_EQ(point.steps, history.every());
    EXPECT_EQ(point.step, before + history.every());
    // The mean of before + 1, ..., step.
    EXPECT_NEAR(point.loss, static_cast<double>(before + 1 + point.step) / 2,
                1e-6);
    before = point.step;
  }
}

TEST(LivePoint, MergesByTheKindOfEachFigure) {
  LivePoint a = Step(3, 6);
  a.steps = 3;
  a.warmup = true;
  a.learning_rate = 1;
  a.device_peak_bytes = 9;
  LivePoint b = Step(4, 2);
  b.learning_rate = 2;
  a.device_budget_bytes = 20;
  b.device_budget_bytes = 10;
  b.host_bytes = 5;
  const LivePoint both = Merge(a, b);
  EXPECT_EQ(both.step, 4);
  EXPECT_EQ(both.steps, 4);
  EXPECT_EQ(both.loss, 5);
  EXPECT_EQ(both.learning_rate, 2);
  EXPECT_EQ(both.device_budget_bytes, 20);
  EXPECT_EQ(both.device_peak_bytes, 9);
  EXPECT_EQ(both.host_bytes, 5);
  EXPECT_TRUE(both.warmup);
  EXPECT_EQ(Merge(LivePoint(), b), b);
  EXPECT_EQ(Merge(b, LivePoint()), b);
}

TEST(LivePoint, HasTheLossOfTheStepsThatHaveOne) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Merge(Step(1, none), Step(2, 3)).loss, 3);
  EXPECT_EQ(Merge(Step(1, 3), Step(2, none)).loss, 3);
  EXPECT_TRUE(std::isnan(Merge(Step(1, none), Step(2, none)).loss));
}

}  // namespace
}  // namespace castor::cli
