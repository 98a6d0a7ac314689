#include "insight/chunk_residency.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "insight/trace_sketch.h"

namespace castor {
namespace {

// "hold 100-500, compute 500-600, ..."
std::string Of(const TraceContents& contents, int64_t chunk) {
  std::string text;
  for (const auto& r : BuildTraceView(contents, "").residency) {
    if (r.chunk != chunk) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    ResidencyStateName(r.state), " ", r.start_ns, "-",
                    r.end_ns);
  }
  return text;
}

// Chunk 0 is there from the start; operators 0 (0-100) and 4 (500-600) use it,
// the latter writes; 600-700 it is copied back and dropped; the CPU adds up
// (700-800) and updates (800-900); 900-1000 it comes back.
TEST(ChunkResidency, FollowsAChunkThroughAStep) {
  const TraceSketch sketch = OneStep();
  EXPECT_EQ(Of(sketch.contents, 0),
            "compute 0-100, hold 100-500, compute 500-600, leaving 600-700, "
            "reducing 700-800, updating 800-900, arriving 900-1000");
  EXPECT_EQ(Of(sketch.contents, 1),
            "arriving 50-300, compute 300-400, compute 400-500, leaving "
            "500-600, reducing 600-650, updating 900-950");
}

TEST(ChunkResidency, KeepsGradientsUntilTheyAreCopiedBack) {
  TraceSketch sketch;
  const int64_t s = sketch.AddStep(1, sketch.AddPlan(), 0);
  sketch.Op(s, 4, 0, 10);
  sketch.Work(2, WorkKind::kCopyBack, s, 5, 0, 50, 60);
  sketch.Op(s, 1, 90, 100);
  EXPECT_EQ(Of(sketch.contents, 0),
            "compute 0-10, gradients 10-50, leaving 50-60");
}

// The device adds up what operator 4 writes into chunk 0 (10-20), and the sum
// leaves (30-50) for its update; the payload was worth nothing from 20 on.
TEST(ChunkResidency, EndsWhereTheDeviceHasAddedUpTheGradients) {
  TraceSketch sketch;
  const int64_t s = sketch.AddStep(1, sketch.AddPlan(), 0);
  PlanRecord& plan = sketch.contents.plans[0];
  plan.actions.clear();
  TraceSketch::Act(plan, 5, ActionKind::kMakeSum, 0, 5);
  TraceSketch::Act(plan, 6, ActionKind::kDrop, 0, 6);
  TraceSketch::Act(plan, 6, ActionKind::kSendSum, 0, 5);
  TraceSketch::Act(plan, 6, ActionKind::kDropSum, 0, -1);
  TraceSketch::Act(plan, 8, ActionKind::kFetch, 0, 0);
  sketch.Op(s, 4, 0, 10);
  sketch.Work(0, WorkKind::kReduce, s, 5, 0, 10, 20);
  sketch.Work(2, WorkKind::kCopyBack, s, 6, 0, 30, 50);
  sketch.Work(3, WorkKind::kUpdate, s, 6, 0, 50, 60);
  sketch.Work(1, WorkKind::kFetch, s, 8, 0, 70, 80);
  EXPECT_EQ(Of(sketch.contents, 0),
            "compute 0-10, compute 10-20, updating 50-60, arriving 70-80");
}

// A reduce of gradients in a block beside the payload says nothing of the
// payload.
TEST(ChunkResidency, LeavesThePayloadOfGradientsBesideItAsItIs) {
  TraceSketch sketch;
  const int64_t s = sketch.AddStep(1, sketch.AddPlan(), 0);
  PlanRecord& plan = sketch.contents.plans[0];
  plan.initial.clear();
  plan.actions.clear();
  TraceSketch::Act(plan, 4, ActionKind::kFetch, 0, 4);
  TraceSketch::Act(plan, 4, ActionKind::kMakeGradients, 0, 4);
  TraceSketch::Act(plan, 5, ActionKind::kDrop, 0, 5);
  TraceSketch::Act(plan, 5, ActionKind::kMakeSum, 0, 5);
  TraceSketch::Act(plan, 6, ActionKind::kDropGradients, 0, -1);
  sketch.Work(1, WorkKind::kFetch, s, 4, 0, 0, 10);
  sketch.Op(s, 4, 10, 20);
  sketch.Work(0, WorkKind::kReduce, s, 5, 0, 30, 40);
  EXPECT_EQ(Of(sketch.contents, 0), "arriving 0-10, compute 10-20");
}

// Dropped without a record: its last use is over at 40, and it is fetched
// again at 70.
TEST(ChunkResidency, EndsADropWhereTheLastUseIsOver) {
  TraceSketch sketch;
  const int64_t s = sketch.AddStep(1, sketch.AddPlan(), 0);
  auto& actions = sketch.contents.plans[0].actions;
  actions.clear();
  TraceSketch::Act(sketch.contents.plans[0], 1, ActionKind::kDrop, 0, 1);
  TraceSketch::Act(sketch.contents.plans[0], 4, ActionKind::kFetch, 0, 4);
  sketch.Op(s, 0, 10, 40);
  sketch.Work(1, WorkKind::kFetch, s, 4, 0, 70, 80);
  sketch.Op(s, 4, 90, 100);
  EXPECT_EQ(Of(sketch.contents, 0),
            "hold 0-10, compute 10-40, arriving 70-80, hold 80-90, compute "
            "90-100");
}

// The next plan does not start with chunk 0, and starts with chunk 1, which
// was brought before the step, as work of none.
TEST(ChunkResidency, FollowsAChangeOfThePlan) {
  TraceSketch sketch;
  const int64_t first = sketch.AddPlan();
  const int64_t second = sketch.AddPlan();
  sketch.contents.plans[second].initial = {ChunkId(1)};
  const int64_t a = sketch.AddStep(1, first, 0);
  const int64_t b = sketch.AddStep(2, second, 50);
  sketch.Op(a, 0, 0, 50);
  sketch.Work(1, WorkKind::kFetch, -1, -1, 1, 50, 60);
  sketch.Op(b, 1, 70, 80);
  sketch.Op(b, 2, 80, 90);
  EXPECT_EQ(Of(sketch.contents, 0), "compute 0-50");
  EXPECT_EQ(Of(sketch.contents, 1),
            "arriving 50-60, hold 60-70, compute 70-80, compute 80-90");
}

// Optimizer states on the device: reduce and update run there.
TEST(ChunkResidency, PutsParametersBackWithTheUpdate) {
  TraceSketch sketch;
  const int64_t s = sketch.AddStep(1, sketch.AddPlan(), 0);
  sketch.contents.plans[0].actions.clear();
  sketch.Op(s, 4, 0, 10);
  sketch.Work(0, WorkKind::kReduce, s, 5, 0, 10, 20);
  sketch.Work(0, WorkKind::kUpdate, s, 6, 0, 40, 50);
  sketch.Op(s, 7, 90, 100);
  EXPECT_EQ(Of(sketch.contents, 0),
            "compute 0-10, compute 10-20, gradients 20-40, compute 40-50, hold "
            "50-100");
}

TEST(ChunkResidency, HoldsAChunkThatIsNeverUsedForTheWholeWindow) {
  TraceSketch sketch;
  const int64_t s = sketch.AddStep(1, sketch.AddPlan(), 0);
  sketch.Op(s, 1, 0, 100);  // uses chunk 1
  EXPECT_EQ(Of(sketch.contents, 0), "hold 0-100");
}

}  // namespace
}  // namespace castor
