// Tests what the tables and the summary say of a trace.
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

// Operators whose names differ in numbers alone are summed up, whatever the
// block; training and evaluation are apart, and each has shares of its own
// steps.
TEST(Tables, GroupOperatorsByModuleAndKind) {
  TraceSketch sketch;
  StepTrace& trace = sketch.contents.step_traces[0];
  const std::vector<std::string> names = {"h.0.mlp.c_fc/forward",
                                          "h.11.mlp.c_fc/forward",
                                          "h.11.mlp.c_fc/backward_input",
                                          "reduce/chunk 1",
                                          "h.0.ln_1.weight/backward",
                                          "reduce/chunk 0",
                                          "update/chunk 0",
                                          "update/chunk 1"};
  for (size_t t = 0; t < names.size(); ++t) trace.ops[t].name = names[t];
  trace.ops[0].flops = 1'000;
  trace.ops[1].flops = 2'000;
  const int64_t plan = sketch.AddPlan();
  for (const int64_t step : {1, 2}) {
    const int64_t start = 1'000 * (step - 1);
    const int64_t s = sketch.AddStep(step, plan, start);
    sketch.Op(s, 0, start, start + 100);
    sketch.Op(s, 1, start + 100, start + 300);
    sketch.Op(s, 2, start + 300, start + 350);
    sketch.Work(3, WorkKind::kReduce, s, 3, 1, start + 350, start + 360);
    sketch.Work(3, WorkKind::kReduce, s, 5, 0, start + 360, start + 370);
    sketch.Result(step, start, start + 1'000);
  }
  const TraceView view = ViewOf(sketch);
  ASSERT_EQ(view.modules.size(), 3u);
  const TraceView::ModuleRow& most = view.modules[0];
  EXPECT_EQ(most.pattern, "h.*.mlp.c_fc/forward");
  EXPECT_EQ(most.module, "h.*.mlp.c_fc");
  EXPECT_EQ(most.kind, "forward");
  EXPECT_EQ(most.phase, "forward");
  EXPECT_EQ(most.operators, 2);
  EXPECT_EQ(most.count, 4);
  EXPECT_EQ(most.total_ns, 600);
  EXPECT_EQ(most.max_ns, 200);
  EXPECT_DOUBLE_EQ(most.share, 0.3);
  EXPECT_DOUBLE_EQ(most.flops, 6'000);
  EXPECT_DOUBLE_EQ(most.flops_per_s(), 1e10);
  EXPECT_EQ(view.modules[1].kind, "backward_input");
  EXPECT_EQ(view.modules[1].flops_per_s(), 0);
  EXPECT_EQ(view.modules[2].module, "all chunks");
  EXPECT_EQ(view.modules[2].kind, "reduce");
  EXPECT_EQ(view.modules[2].operators, 2);
  ASSERT_TRUE(view.summary.has_value());
  EXPECT_DOUBLE_EQ(view.summary->flops, 3'000);

  trace.training = false;
  EXPECT_EQ(ViewOf(sketch).modules[0].phase, "evaluation");
  EXPECT_EQ(ViewOf(sketch).modules[0].kind, "eval forward");

  trace.training = true;
  trace.ops[1].phase = Phase::kBackward;
  EXPECT_EQ(ViewOf(sketch).modules[0].kind, "forward again");
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
