#include "insight/compare.h"

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "insight/trace_sketch.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Notes(const TraceView& a, const TraceView& b) {
  return absl::StrJoin(CompareViews(a, b).notes, "\n");
}

double Value(const Comparison& comparison, const std::string& row, bool b) {
  for (const Comparison::Row& each : comparison.rows) {
    if (each.name == row) return b ? each.b : each.a;
  }
  ADD_FAILURE() << "no row " << row;
  return 0;
}

// The second run has twice the budget and no wait: its step is 200 shorter.
class CompareTest : public ::testing::Test {
 protected:
  CompareTest() {
    const TraceSketch slow = OneStep();
    TraceSketch fast = OneStep();
    fast.contents.run->device_budget_bytes = 20'480;
    fast.contents.plans[0].device_budget_bytes = 20'480;
    std::erase_if(fast.contents.waits, [](const WaitRecord& wait) {
      return wait.waiter.stream == 0;
    });
    fast.contents.results[0].end_ns = 800;
    fast.contents.results[0].duration_ns = 800;
    for (WorkRecord& work : fast.contents.works) {
      if (work.start_ns < 300) continue;
      work.start_ns -= 200;
      work.end_ns -= 200;
    }
    fast.contents.issues[2].bytes = {4'000, 300};
    fast.contents.issues[2].used_bytes = 4'300;
    a_ = BuildTraceView(slow.contents, "slow.trace");
    b_ = BuildTraceView(fast.contents, "fast.trace");
  }
  TraceView a_, b_;
};

TEST_F(CompareTest, SaysWhatWasChangedAndWhatCameOfIt) {
  EXPECT_THAT(
      Notes(a_, b_),
      AllOf(HasSubstr("Device budget: 9.77 KiB -> 20.0 KiB."),
            HasSubstr("A step takes less: 1.00 us -> 800 ns (-20 %); exposed "
                      "copies -200 ns"),
            HasSubstr("A wait is gone. The bus to the device"),
            HasSubstr("most of all parameters 2.93 KiB -> 3.91 KiB"),
            Not(HasSubstr("Policy"))));
}

TEST_F(CompareTest, HasARowForEachNumberOfBoth) {
  const Comparison comparison = CompareViews(a_, b_);
  EXPECT_EQ(Value(comparison, "step time", false), 1'000);
  EXPECT_EQ(Value(comparison, "step time", true), 800);
  EXPECT_EQ(Value(comparison, "exposed copies", true), 0);
  EXPECT_EQ(Value(comparison, "device budget", true), 20'480);
  for (const Comparison::Row& row : comparison.rows) {
    EXPECT_THAT((std::vector<std::string>{"ns", "bytes", "count", "bytes_per_s",
                                          "tokens_per_s"}),
                ::testing::Contains(row.unit));
  }
}

TEST_F(CompareTest, SaysThatBlocksGotAddressesAndAreMovedNoMore) {
  TraceSketch moving = OneStep();
  moving.contents.plans[0].planned_addresses = false;
  moving.Work(0, WorkKind::kOther, 0, -1, -1, 600, 630);
  TraceSketch planned = OneStep();
  planned.contents.plans[0].planned_addresses = true;
  planned.AddActivations();
  const TraceView a = BuildTraceView(moving.contents, "a.trace");
  const TraceView b = BuildTraceView(planned.contents, "b.trace");
  EXPECT_THAT(
      Notes(a, b),
      AllOf(HasSubstr("Addresses of blocks of memory: not planned -> planned."),
            HasSubstr("Blocks' activations: 0 kept, 0 by way of the host, 0 "
                      "made again -> 1 kept, 1 by way of the host, 1 made "
                      "again.")));
  const Comparison comparison = CompareViews(a, b);
  EXPECT_EQ(Value(comparison, "moves of blocks per step", false), 1);
  EXPECT_EQ(Value(comparison, "moves of blocks per step", true), 0);
  EXPECT_EQ(Value(comparison, "time of these moves", false), 30);
}

TEST_F(CompareTest, FindsNothingBetweenATraceAndItself) {
  EXPECT_EQ(Notes(a_, a_), "A step takes as long: 1.00 us -> 1.00 us.");
}

TEST_F(CompareTest, TellsWhatCannotBeCompared) {
  const TraceView empty = BuildTraceView(TraceContents(), "empty.trace");
  EXPECT_THAT(Notes(a_, empty),
              AllOf(HasSubstr("The run: finished -> empty."),
                    HasSubstr("empty.trace holds no whole training step")));
  EXPECT_TRUE(CompareViews(a_, empty).rows.empty());
}

}  // namespace
}  // namespace castor
