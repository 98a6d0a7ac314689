// What the tables and the summary say of a trace.
#include "insight/summary.h"

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "insight/trace_sketch.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TraceView ViewOf(const TraceSketch& sketch) {
  return BuildTraceView(sketch.contents, "sketch.trace");
}

TEST(Tables, CountOperatorsWhereverTheyRan) {
  const TraceView view = ViewOf(OneStep());
  ASSERT_EQ(view.operators.size(), 8u);
  EXPECT_EQ(view.operators[1].total_ns, 100);
  EXPECT_EQ(view.operators[1].wait_ns, 200);
  EXPECT_EQ(view.operators[1].peak_bytes, 3'200);
  EXPECT_EQ(view.operators[5].total_ns, 100);  // reduce, on the CPU
  EXPECT_EQ(view.operators[5].count, 1);
}

// Chunk 1 is on the device from 50 to 600 of 1000.
TEST(Tables, CountTrafficAndResidencyOfChunks) {
  const TraceView view = ViewOf(OneStep());
  ASSERT_EQ(view.chunks.size(), 2u);
  const TraceView::ChunkRow& row = view.chunks[1];
  EXPECT_EQ(row.fetches, 1);
  EXPECT_EQ(row.fetched_bytes, 2'000);
  EXPECT_EQ(row.copied_back_bytes, 2'000);
  EXPECT_NEAR(row.resident_share, 0.55, 1e-9);
  EXPECT_EQ(row.wait_ns, 200);
  EXPECT_FALSE(row.on_device_side);
  EXPECT_EQ(row.parameters, "b.weight, b.bias and 1 more");
}

TEST(Tables, PutWaitsOfComputeFirst) {
  const TraceView view = ViewOf(OneStep());
  ASSERT_GE(view.waits.size(), 2u);
  EXPECT_EQ(view.waits[0].stream, 0);
  EXPECT_EQ(view.waits[0].total_ns, 200);
  EXPECT_NE(view.waits[1].stream, 0);
  EXPECT_GT(view.waits[1].total_ns, 200);
}

TEST(Summary, TellsWhereAStepGoesAndWhatWouldHelp) {
  const TraceView view = ViewOf(OneStep());
  ASSERT_TRUE(view.summary.has_value());
  const TraceView::Summary& summary = *view.summary;
  EXPECT_EQ(summary.steps, 1);
  EXPECT_EQ(summary.step_ns, 1'000);
  EXPECT_EQ(summary.compute_ns + summary.copy_ns + summary.optimizer_ns +
                summary.idle_ns,
            summary.step_ns);
  EXPECT_DOUBLE_EQ(summary.tokens_per_second, 1e8);  // 100 in a microsecond
  EXPECT_EQ(summary.predicted_step_ns, 1'000);
  EXPECT_THAT(
      absl::StrJoin(summary.advice, "\n"),
      AllOf(HasSubstr("the device computes 40 %; it stands still 20 % for "
                      "copies and 30 % for the CPU optimizer"),
            HasSubstr("All of the waits (200 ns a step) have one cause"),
            HasSubstr("for chunk 1"), HasSubstr("a faster bus")));
}

// Steps of 1000, 3000 and 2000 on the settled plan; a warm-up step of 9000
// before and one that is cut off after them.
TEST(Summary, IsOfTheMedianWholeStepOnTheSettledPlan) {
  TraceSketch sketch;
  const int64_t warmup = sketch.AddPlan();
  sketch.contents.plans[warmup].warmup = true;
  const int64_t plan = sketch.AddPlan();
  sketch.AddStep(1, warmup, 0);
  for (const int64_t step : {2, 3, 4, 5}) sketch.AddStep(step, plan, 0);
  sketch.Result(1, 0, 9'000);
  sketch.Result(2, 9'000, 10'000);
  sketch.Result(3, 10'000, 13'000);
  sketch.Result(4, 13'000, 15'000);
  const TraceView view = ViewOf(sketch);
  ASSERT_TRUE(view.summary.has_value());
  EXPECT_EQ(view.summary->steps, 3);
  EXPECT_EQ(view.summary->step_ns, 2'000);
  EXPECT_EQ(view.summary->median_step, 3);
}

TEST(Summary, SaysSoWhereThereAreOnlyWarmUpSteps) {
  TraceSketch sketch = OneStep();
  sketch.contents.plans[0].warmup = true;
  const TraceView view = ViewOf(sketch);
  ASSERT_TRUE(view.summary.has_value());
  EXPECT_THAT(view.summary->advice[0], HasSubstr("warm-up steps alone"));
}

TEST(Summary, IsNoneWithoutAWholeTrainingStep) {
  EXPECT_FALSE(BuildTraceView(TraceContents(), "").summary.has_value());
  TraceSketch sketch;
  sketch.Op(sketch.AddStep(1, sketch.AddPlan(), 0), 0, 0, 10);
  EXPECT_FALSE(ViewOf(sketch).summary.has_value());
}

}  // namespace
}  // namespace castor
