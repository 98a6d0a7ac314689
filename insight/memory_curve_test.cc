#include "insight/memory_curve.h"

#include "gtest/gtest.h"
#include "insight/trace_sketch.h"

namespace castor {
namespace {

// The host thread issued operators at 0, 1, 2, ...; they ran at 0, 300, 400,
// on the CPU (reduce), 500.
TEST(MemoryCurve, StandsWhereOperatorsStartOnTheDevice) {
  const TraceView view = BuildTraceView(OneStep().contents, "");
  ASSERT_EQ(view.memory.size(), 5u);
  const std::vector<int64_t> times = {0, 300, 400, 400, 500};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(view.memory[i].time_ns, times[i]) << i;
    EXPECT_EQ(view.memory[i].moment, static_cast<int64_t>(i));
  }
  EXPECT_EQ(view.memory[3].bytes, (std::vector<int64_t>{1'000, 300}));
}

TEST(MemoryCurve, PeaksAtTheFirstOfTheHighestPoints) {
  const TraceView view = BuildTraceView(OneStep().contents, "");
  ASSERT_TRUE(view.peak.has_value());
  EXPECT_EQ(view.peak->bytes, 3'300);
  EXPECT_EQ(view.peak->time_ns, 400);
  EXPECT_EQ(view.peak->op, "b/backward");
  EXPECT_EQ(view.peak->by_category, (std::vector<int64_t>{3'000, 300}));
}

// The plan expected operators at 0, 100, 200, ...; they ran at 0, 300, 400, on
// the CPU, 500, and the rest on the CPU.
TEST(MemoryCurve, LaysThePlanWhereOperatorsReallyStart) {
  const TraceView view = BuildTraceView(OneStep().contents, "");
  ASSERT_EQ(view.predicted_memory.size(), 8u);
  const std::vector<int64_t> times = {0, 300, 400, 400, 500, 500, 500, 500};
  const std::vector<int64_t> bytes = {5'000, 4'000, 4'000, 3'000,
                                      3'000, 2'000, 2'000, 2'000};
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(view.predicted_memory[i].time_ns, times[i]) << i;
    EXPECT_EQ(view.predicted_memory[i].bytes, bytes[i]) << i;
  }
}

TEST(MemoryCurve, LeavesOutOfThePlanWhatStandsBeyondAStepsEnd) {
  TraceSketch sketch;
  const int64_t s = sketch.AddStep(1, sketch.AddPlan(), 0);
  sketch.Op(s, 0, 0, 100);
  sketch.Op(s, 1, 260, 300);
  sketch.Result(1, 0, 250);
  const TraceView view = BuildTraceView(sketch.contents, "");
  ASSERT_EQ(view.predicted_memory.size(), 1u);
  EXPECT_EQ(view.predicted_memory[0].bytes, 5'000);
}

TEST(MemoryCurve, KnowsTheBudgetOfEachMoment) {
  TraceSketch sketch;
  EXPECT_EQ(BuildTraceView(sketch.contents, "").BudgetAt(0), 10'000);
  sketch.contents.budgets = {
      {.time_ns = 500, .step = 2, .from_bytes = 6'000, .to_bytes = 12'000},
      {.time_ns = 100, .step = 1, .from_bytes = 9'000, .to_bytes = 6'000}};
  const TraceView view = BuildTraceView(sketch.contents, "");
  ASSERT_EQ(view.budgets.size(), 2u);
  EXPECT_EQ(view.budgets[0].step, 1);
  EXPECT_EQ(view.BudgetAt(99), 9'000);
  EXPECT_EQ(view.BudgetAt(100), 6'000);
  EXPECT_EQ(view.BudgetAt(499), 6'000);
  EXPECT_EQ(view.BudgetAt(500), 12'000);
}

TEST(MemoryCurve, OrdersTheHostsByTimeAndLeavesOutWhatHasNoCategories) {
  TraceSketch sketch;
  sketch.contents.hosts = {{50, {1, 2}}, {10, {3, 4}}, {20, {5}}};
  const TraceView view = BuildTraceView(sketch.contents, "");
  ASSERT_EQ(view.host_memory.size(), 2u);
  EXPECT_EQ(view.host_memory[0].time_ns, 10);
  EXPECT_EQ(view.host_memory[1].bytes, (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(view.peak.has_value());
}

}  // namespace
}  // namespace castor
