#include "run/program/duration_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace castor {
namespace {

// Returns how many of these steps pass until the watch is due; 0: it never is.
int64_t StepsUntilDue(DurationWatch& watch, const std::vector<double>& steps) {
  int64_t count = 0;
  for (const double seconds : steps) {
    ++count;
    watch.AddStep(seconds);
    if (watch.due()) return count;
  }
  return 0;
}

DurationWatch Settled(double foreseen) {
  DurationWatch watch;
  watch.BeginPlan(foreseen);
  EXPECT_EQ(StepsUntilDue(watch, {1, 1, 1, 1}), 4);
  watch.KeepPlan(foreseen);
  EXPECT_FALSE(watch.due());
  return watch;
}

TEST(DurationWatch, SettlesWhenStepsDoNotGetFasterAnyMore) {
  DurationWatch watch;
  watch.BeginPlan(1);
  EXPECT_EQ(StepsUntilDue(watch, {9, 8, 7, 6, 5, 4.9, 1}), 6);
  watch.BeginPlan(1);
  EXPECT_EQ(StepsUntilDue(watch, {1, 2, 1, 2}), 4);
}

TEST(DurationWatch, TakesOtherCountsOfSteps) {
  DurationWatch watch(
      {.settling_steps = 1, .most_settling_steps = 3, .drift_steps = 2});
  watch.BeginPlan(1);
  EXPECT_EQ(StepsUntilDue(watch, {5, 4, 3, 2}), 3);
  watch.KeepPlan(1);
  EXPECT_EQ(StepsUntilDue(watch, {5, 1, 5, 5, 5}), 4);
}

TEST(DurationWatch, SettlesAtLast) {
  DurationWatch watch;
  watch.BeginPlan(1);
  std::vector<double> steps;
  for (double seconds = 100; seconds > 1; seconds *= 0.9) {
    steps.push_back(seconds);
  }
  EXPECT_EQ(StepsUntilDue(watch, steps), WatchLimits().most_settling_steps);
}

TEST(DurationWatch, IsDueAfterEightDriftingStepsInARow) {
  DurationWatch watch = Settled(1);
  // Within a tenth there is no drift, however many they are.
  EXPECT_EQ(StepsUntilDue(watch, std::vector<double>(40, 1.09)), 0);
  EXPECT_EQ(StepsUntilDue(watch, std::vector<double>(7, 1.2)), 0);
  EXPECT_EQ(StepsUntilDue(watch, {1}), 0);
  EXPECT_EQ(StepsUntilDue(watch, std::vector<double>(20, 1.2)), 8);
  // Faster is drift too.
  watch = Settled(1);
  EXPECT_EQ(StepsUntilDue(watch, std::vector<double>(20, 0.8)), 8);
}

TEST(DurationWatch, AsksHalfAsOftenWhereAskingDidNotHelp) {
  DurationWatch watch = Settled(1);
  EXPECT_EQ(StepsUntilDue(watch, std::vector<double>(99, 2)), 8);
  watch.KeepPlan(1);
  EXPECT_EQ(StepsUntilDue(watch, std::vector<double>(99, 2)), 16);
  watch.KeepPlan(2);
  EXPECT_EQ(StepsUntilDue(watch, std::vector<double>(99, 2)), 0);
  // A new plan begins anew.
  watch = Settled(1);
  EXPECT_EQ(StepsUntilDue(watch, std::vector<double>(99, 2)), 8);
}

// One operator that took `duration_ns`.
DurationMeter Took(uint16_t tag, int64_t duration_ns) {
  DurationMeter meter;
  meter.Add({.stream = static_cast<int64_t>(StreamId::kCompute),
             .kind = WorkKind::kOperator,
             .moment = Moment(0),
             .start_ns = 1,
             .end_ns = 1 + duration_ns,
             .tag = tag});
  return meter;
}

int64_t Median(DurationWatch watch) {
  StepTrace trace;
  trace.ops.resize(1);
  BusModel bus;
  watch.TakeLatest().first.Fill(DurationMeter::Statistic::kMedian, &trace,
                                &bus);
  return trace.ops[0].duration_ns;
}

TEST(DurationWatch, TakesMediansOverTheLatestSteps) {
  DurationWatch watch;
  watch.BeginPlan(1);
  uint16_t tag = 0;
  for (const int64_t ns : {900, 800, 100, 102, 103, 101, 101}) {
    watch.AddDurations(Took(++tag, ns));
  }
  EXPECT_NEAR(Median(watch), 101, 1);  // of the last four
  watch.KeepPlan(1);
  for (int i = 0; i < 8; ++i) watch.AddDurations(Took(++tag, 200));
  EXPECT_EQ(Median(watch), 200);
  watch.BeginPlan(1);
  watch.AddDurations(Took(++tag, 7));
  EXPECT_EQ(Median(watch), 7);
}

}  // namespace
}  // namespace castor
