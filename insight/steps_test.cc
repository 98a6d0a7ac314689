#include "insight/steps.h"

#include "gtest/gtest.h"
#include "insight/trace_sketch.h"

namespace castor {
namespace {

std::vector<TraceView::Step> Steps(const TraceSketch& sketch) {
  return BuildTraceView(sketch.contents, "").steps;
}

// OneStep: operators 0-100 and 300-600; compute waits 100-300 for a copy; the
// CPU reduces and updates from 600 to 650 and from 700 to 950, when compute has
// nothing to do. The rest of 1000 is idle: 650-700 and 950-1000.
TEST(Steps, NameTheirTime) {
  const TraceView::Step step = Steps(OneStep())[0];
  EXPECT_EQ(step.compute_ns, 400);
  EXPECT_EQ(step.wait_ns, 200);
  EXPECT_EQ(step.copy_ns, 200);
  EXPECT_EQ(step.optimizer_ns, 300);
  EXPECT_EQ(step.idle_ns, 100);
  EXPECT_EQ(step.device_peak_bytes, 3'300);
  EXPECT_EQ(step.loss, 2.5);
  EXPECT_TRUE(step.whole);
}

// Update 0-60, fetch 60-80; compute waits 0-80: 60 for the optimizer, 20 for
// the copy, though the CPU goes on with another chunk meanwhile.
TEST(Steps, CountAWaitForWhatItWasWaitingForJustThen) {
  TraceSketch sketch;
  const int64_t s = sketch.AddStep(1, sketch.AddPlan(), 0);
  const int64_t update = sketch.Work(3, WorkKind::kUpdate, s, 7, 1, 0, 60);
  sketch.Work(3, WorkKind::kUpdate, s, 6, 0, 60, 80);
  sketch.Wait(1, WorkKind::kFetch, s, 0, 1, 0, 60, {{3, update}});
  const int64_t fetch = sketch.Work(1, WorkKind::kFetch, s, 0, 1, 60, 80);
  sketch.Wait(0, WorkKind::kOperator, s, 1, 1, 0, 80, {{1, fetch}});
  sketch.Op(s, 1, 80, 100);
  const TraceView::Step step = Steps(sketch)[0];
  EXPECT_EQ(step.optimizer_ns, 60);
  EXPECT_EQ(step.copy_ns, 20);
  EXPECT_EQ(step.compute_ns, 20);
  EXPECT_EQ(step.idle_ns, 0);
}

// A plan is made from 100 to 400, while the device is busy until 150.
TEST(Steps, CountPausesAsIdle) {
  TraceSketch sketch;
  const int64_t s = sketch.AddStep(1, sketch.AddPlan(), 0);
  sketch.Op(s, 0, 0, 150);
  sketch.contents.works.push_back({.stream = 0,
                                   .kind = WorkKind::kPlanning,
                                   .start_ns = 100,
                                   .end_ns = 400});
  const int64_t copy = sketch.Work(1, WorkKind::kFetch, s, 1, 1, 400, 500);
  sketch.Wait(0, WorkKind::kOperator, s, 1, 1, 400, 500, {{1, copy}});
  sketch.Op(s, 1, 500, 600);
  sketch.Result(1, 0, 600);
  const TraceView view = BuildTraceView(sketch.contents, "");
  EXPECT_EQ(view.steps[0].compute_ns, 250);
  EXPECT_EQ(view.steps[0].copy_ns, 100);
  EXPECT_EQ(view.steps[0].idle_ns, 250);
  const TraceView::Span& pause = view.spans[1];
  EXPECT_EQ(pause.kind, static_cast<int64_t>(WorkKind::kPlanning));
  EXPECT_EQ(view.strings[pause.label], "planning");
  ASSERT_GE(pause.note, 0);
  EXPECT_NE(view.strings[pause.note].find("makes a plan"), std::string::npos);
  EXPECT_EQ(pause.start_ns, 150);
  EXPECT_EQ(pause.end_ns, 400);
}

TEST(Steps, FollowEachOtherWithoutResults) {
  TraceSketch sketch;
  const int64_t plan = sketch.AddPlan();
  const int64_t a = sketch.AddStep(0, plan, 10);
  const int64_t b = sketch.AddStep(0, plan, 40);
  sketch.Op(a, 0, 20, 50);
  sketch.Op(b, 0, 60, 90);
  const std::vector<TraceView::Step> steps = Steps(sketch);
  EXPECT_EQ(steps[0].start_ns, 10);  // it began
  EXPECT_EQ(steps[0].end_ns, 50);
  EXPECT_EQ(steps[1].start_ns, 50);  // the one before was over
  EXPECT_EQ(steps[1].end_ns, 90);
  EXPECT_EQ(steps[1].idle_ns, 10);
  EXPECT_TRUE(steps[0].whole);
  EXPECT_FALSE(steps[1].whole);  // the file ends
}

TEST(Steps, LieWhereTheirResultsSay) {
  TraceSketch sketch;
  const int64_t s = sketch.AddStep(4, sketch.AddPlan(), 500);
  sketch.Op(s, 0, 600, 700);
  sketch.Result(4, 450, 800);
  const TraceView::Step step = Steps(sketch)[0];
  EXPECT_EQ(step.start_ns, 450);
  EXPECT_EQ(step.end_ns, 800);
  EXPECT_EQ(step.compute_ns, 100);
  EXPECT_EQ(step.h2d_bytes, 3'000);
}

TEST(Steps, MayHaveNothingInThem) {
  TraceSketch sketch;
  sketch.AddStep(1, sketch.AddPlan(), 70);
  sketch.AddStep(2, 99, 80);  // no such plan
  const std::vector<TraceView::Step> steps = Steps(sketch);
  EXPECT_EQ(steps[0].end_ns, steps[0].start_ns);
  EXPECT_EQ(steps[1].plan, -1);
}

}  // namespace
}  // namespace castor
