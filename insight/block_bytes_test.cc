// Tests what the view says of blocks whose activations are kept, are made
// again, or go to the host: curves, rows, and where they are.
#include "insight/block_bytes.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "insight/trace_sketch.h"
#include "insight/trace_view.h"

namespace castor {
namespace {

// Chunk 2 is made at operator 1, copied back before operator 2 (in two pieces,
// 200-210 and 210-220) and fetched before operator 4 (300-310, 310-320), which
// reads it.
TraceSketch WithActivations() {
  TraceSketch sketch;
  sketch.AddActivations();
  const int64_t plan = sketch.AddPlan();
  PlanRecord& record = sketch.contents.plans[plan];
  record.actions.clear();
  TraceSketch::Act(record, 1, ActionKind::kFetch, 2, 1);
  TraceSketch::Act(record, 2, ActionKind::kCopyBack, 2, 2);
  TraceSketch::Act(record, 2, ActionKind::kDrop, 2, 2);
  TraceSketch::Act(record, 4, ActionKind::kFetch, 2, 4);
  TraceSketch::Act(record, 5, ActionKind::kDrop, 2, 5);
  const int64_t s = sketch.AddStep(1, plan, 0);
  using enum WorkKind;
  sketch.Op(s, 0, 0, 100);
  sketch.Op(s, 1, 100, 200);
  sketch.Work(2, kCopyBack, s, 2, 2, 200, 210);
  sketch.Work(2, kCopyBack, s, 2, 2, 210, 220);
  sketch.Op(s, 2, 220, 300);
  sketch.Work(1, kFetch, s, 4, 2, 300, 310);
  const int64_t last = sketch.Work(1, kFetch, s, 4, 2, 310, 320);
  sketch.Wait(0, kOperator, s, 4, 2, 300, 320, {{1, last}});
  sketch.Op(s, 4, 320, 400);
  sketch.Op(s, 5, 400, 500);
  sketch.Result(1, 0, 500);
  return sketch;
}

TEST(BlockBytes, AreWhatBlocksHaveOnTheDeviceOperatorByOperator) {
  const TraceView view = BuildTraceView(WithActivations().contents, "");
  // 50 of block 0 from operator 1 to 3, 300 of block 1 at operator 2.
  EXPECT_EQ(view.programs[0].kept_bytes,
            (std::vector<int64_t>{0, 50, 350, 50, 0, 0, 0, 0}));
  EXPECT_EQ(view.plans[0].activation_bytes,
            (std::vector<int64_t>{0, 200, 0, 0, 200, 0, 0, 0}));
}

TEST(BlockBytes, TakeAnyTrace) {
  StepTrace trace;
  trace.ops.resize(2);
  BlockRecord& block = trace.blocks.emplace_back();
  block.kept = true;
  block.forward = Moment(-5);
  block.backward = Moment(9);
  block.kept_bytes = 7;
  EXPECT_EQ(KeptBytes(trace), (std::vector<int64_t>{7, 7}));
  block.kept_bytes = -7;
  EXPECT_EQ(KeptBytes(trace), (std::vector<int64_t>{0, 0}));
  PlanRecord plan;
  plan.actions = {{Moment(0), ActionKind::kFetch, ChunkId(3), Moment()},
                  {Moment(1), ActionKind::kDrop, ChunkId(-1), Moment()}};
  EXPECT_EQ(ActivationBytes(trace, plan), (std::vector<int64_t>{0, 0}));
}

TEST(BlockTable, HasEachBlocksChoiceItsBytesAndItsCopies) {
  const TraceView view = BuildTraceView(WithActivations().contents, "");
  ASSERT_EQ(view.blocks.size(), 3u);
  const TraceView::BlockRow& away = view.blocks[0];
  EXPECT_EQ(away.choice, "by way of the host");
  EXPECT_EQ(away.name, "a/forward");
  EXPECT_EQ(away.forward, 0);
  EXPECT_EQ(away.backward, 4);
  EXPECT_EQ(away.device_bytes, 50);
  EXPECT_EQ(away.host_bytes, 200);
  EXPECT_EQ(away.chunk, 2);
  EXPECT_EQ(away.copied_back_bytes, 200);
  EXPECT_EQ(away.fetched_bytes, 200);
  EXPECT_EQ(away.wait_ns, 20);
  const TraceView::BlockRow& kept = view.blocks[1];
  EXPECT_EQ(kept.choice, "kept");
  EXPECT_EQ(kept.device_bytes, 300);
  EXPECT_EQ(kept.host_bytes, 0);
  EXPECT_EQ(kept.chunk, -1);
  const TraceView::BlockRow& again = view.blocks[2];
  EXPECT_EQ(again.choice, "made again");
  EXPECT_EQ(again.device_bytes, 0);
  EXPECT_EQ(again.spared_bytes, 400);
  EXPECT_EQ(again.again_ns, 100);
  ASSERT_TRUE(view.summary.has_value());
  EXPECT_EQ(view.summary->kept_blocks, 1);
  EXPECT_EQ(view.summary->host_blocks, 1);
  EXPECT_EQ(view.summary->remade_blocks, 1);
  EXPECT_EQ(view.summary->kept_bytes, 350);
  EXPECT_EQ(view.summary->host_bytes, 200);
  EXPECT_EQ(view.summary->spared_bytes, 400);
}

TEST(BlockTable, SaysInNotesWhatGoesToTheHostAndWhy) {
  const TraceView view = BuildTraceView(WithActivations().contents, "");
  std::string notes;
  for (const TraceView::Span& span : view.spans) {
    if (span.note >= 0) absl::StrAppend(&notes, view.strings[span.note], "\n");
  }
  EXPECT_THAT(notes, ::testing::HasSubstr(
                         "Copies a tensor of chunk 2 (activations of block 0) "
                         "to the host until backward comes to the block, to "
                         "make room for \"b/backward\"."));
  EXPECT_THAT(notes, ::testing::HasSubstr(
                         "Brings chunk 2 (activations of block 0) to the "
                         "device for \"a/backward\""));
}

std::string Places(const TraceView& view) {
  std::string text;
  for (const TraceView::Residency& r : view.residency) {
    if (r.chunk != 2) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    ResidencyStateName(r.state), " ", r.start_ns, "-",
                    r.end_ns);
  }
  return text;
}

TEST(BlockResidency, IsFromMakingToReadingButForWhenItIsAway) {
  TraceSketch sketch = WithActivations();
  EXPECT_EQ(Places(BuildTraceView(sketch.contents, "")),
            "compute 100-200, leaving 200-210, leaving 210-220, arriving "
            "300-310, arriving 310-320, compute 320-400");
  // The copies need not wait for operator 1.
  for (WorkRecord& work : sketch.contents.works) {
    if (work.kind != WorkKind::kCopyBack) continue;
    work.start_ns -= 120;
    work.end_ns -= 120;
  }
  EXPECT_EQ(Places(BuildTraceView(sketch.contents, "")),
            "leaving 80-90, leaving 90-100, arriving 300-310, arriving "
            "310-320, compute 320-400");
  // One that never leaves.
  sketch.contents.plans[0].actions = {
      {Moment(1), ActionKind::kFetch, ChunkId(2), Moment(1)},
      {Moment(5), ActionKind::kDrop, ChunkId(2), Moment(5)}};
  std::erase_if(sketch.contents.works, [](const WorkRecord& work) {
    return work.kind != WorkKind::kOperator;
  });
  EXPECT_EQ(Places(BuildTraceView(sketch.contents, "")),
            "compute 100-200, hold 200-320, compute 320-400");
}

// A move of 30 before operator 1, and one before the work of no operator.
TEST(BlockMoves, AreCountedAndSayWhatTheyAreFor) {
  TraceSketch sketch;
  const int64_t plan = sketch.AddPlan();
  sketch.contents.plans[plan].planned_addresses = false;
  sketch.contents.plans[plan].predicted.moves = 2;
  sketch.contents.plans[plan].predicted.moved_bytes = 640;
  const int64_t s = sketch.AddStep(1, plan, 0);
  sketch.Op(s, 0, 0, 100);
  sketch.Work(0, WorkKind::kOther, s, -1, -1, 100, 130);
  sketch.Op(s, 1, 130, 200);
  sketch.Work(0, WorkKind::kOther, s, -1, -1, 200, 210);
  sketch.Result(1, 0, 210);
  const TraceView view = BuildTraceView(sketch.contents, "");
  const TraceView::Span& move = view.spans[1];
  EXPECT_EQ(view.strings[move.label], "move within device memory");
  EXPECT_EQ(move.because, 1);
  EXPECT_EQ(view.strings[move.note],
            "Moves a block, to make one hole of several for what "
            "\"b/forward\" needs. The plan has no addresses: blocks get "
            "theirs when work is issued.");
  EXPECT_EQ(view.spans[3].because, -1);
  EXPECT_EQ(view.steps[0].moves, 2);
  EXPECT_EQ(view.steps[0].move_ns, 40);
  ASSERT_TRUE(view.summary.has_value());
  EXPECT_EQ(view.summary->planned_addresses, false);
  EXPECT_EQ(view.summary->predicted_moves, 2);
  EXPECT_EQ(view.summary->predicted_moved_bytes, 640);
  EXPECT_EQ(view.summary->moves, 2);
  EXPECT_THAT(view.summary->advice,
              ::testing::Contains(::testing::HasSubstr(
                  "A step moves blocks 2 times within the device's memory, "
                  "which takes 19 % of it: no packing")));
}

}  // namespace
}  // namespace castor
