#include "insight/spans.h"

#include "gtest/gtest.h"
#include "insight/trace_sketch.h"

namespace castor {
namespace {

class SpansTest : public ::testing::Test {
 protected:
  void Build() {
    const TraceIndex index(sketch_.contents);
    list_ = BuildSpans(index, strings_);
  }
  const TraceView::Span& Wait() const {
    for (const TraceView::Span& span : list_.spans) {
      if (span.kind < 0) return span;
    }
    ADD_FAILURE() << "no wait";
    return list_.spans[0];
  }
  std::string Label(int64_t i) const {
    return strings_.strings()[list_.spans[i].label];
  }

  TraceSketch sketch_;
  const int64_t plan_ = sketch_.AddPlan();
  const int64_t step_ = sketch_.AddStep(1, plan_, 0);
  StringTable strings_;
  SpanList list_;
};

TEST_F(SpansTest, LieByStartAndKnowTheSpanBeforeOnTheirStream) {
  sketch_.Op(step_, 0, 0, 10);
  sketch_.Work(1, WorkKind::kFetch, step_, 0, 1, 5, 30);
  sketch_.Op(step_, 1, 20, 40);
  Build();
  EXPECT_EQ(Label(0), "a/forward");
  EXPECT_EQ(Label(1), "fetch chunk 1");
  EXPECT_EQ(Label(2), "b/forward");
  EXPECT_EQ(list_.links.before, (std::vector<int64_t>{-1, -1, 0}));
}

TEST_F(SpansTest, GiveCopiesTheirBytesAndTheOperatorTheyAreFor) {
  sketch_.Work(1, WorkKind::kFetch, step_, 0, 1, 0, 10);
  sketch_.Work(2, WorkKind::kCopyBack, step_, 5, 0, 20, 30);
  sketch_.Work(1, WorkKind::kMove, -1, -1, 1, 40, 50);
  Build();
  EXPECT_EQ(list_.spans[0].bytes, 2'000);
  EXPECT_EQ(list_.spans[0].because, 1);
  EXPECT_EQ(list_.spans[1].bytes, 1'000);
  EXPECT_EQ(list_.spans[1].because, 5);
  EXPECT_EQ(list_.spans[2].bytes, 6'000);  // optimizer states
  EXPECT_EQ(list_.spans[2].because, -1);
}

TEST_F(SpansTest, GiveTheSumThatTheDeviceMadeItsBytes) {
  sketch_.contents.step_traces[0].chunks[0].sum_bytes = 2'500;
  TraceSketch::Act(sketch_.contents.plans[0], 6, ActionKind::kSendSum, 0, 5);
  sketch_.Work(2, WorkKind::kCopyBack, step_, 6, 0, 20, 30);
  Build();
  EXPECT_EQ(list_.spans[0].bytes, 2'500);
  EXPECT_EQ(list_.spans[0].because, 5);
}

TEST_F(SpansTest, ResolveAWaitToWhatEndedLastOfAllThatItNames) {
  const int64_t fetch = sketch_.Work(1, WorkKind::kFetch, step_, 0, 1, 0, 30);
  const int64_t back = sketch_.Work(2, WorkKind::kCopyBack, step_, 3, 1, 0, 50);
  sketch_.Work(2, WorkKind::kCopyBack, step_, 5, 0, 50, 55);  // not named
  sketch_.Wait(0, WorkKind::kOperator, step_, 1, 1, 10, 50,
               {{1, fetch}, {2, back}});
  Build();
  EXPECT_EQ(strings_.strings()[list_.spans[Wait().cause].label],
            "copy back chunk 1");
  EXPECT_EQ(strings_.strings()[Wait().label], "wait for copy back chunk 1");
}

// A named count may be an item that was not recorded: a wait that took no time.
TEST_F(SpansTest, ResolveToTheLatestRecordedUpToTheCount) {
  sketch_.Work(1, WorkKind::kFetch, step_, 0, 1, 0, 30);
  sketch_.Wait(0, WorkKind::kOperator, step_, 1, 1, 10, 31, {{1, 9}});
  Build();
  EXPECT_EQ(strings_.strings()[list_.spans[Wait().cause].label],
            "fetch chunk 1");
}

TEST_F(SpansTest, LeaveAWaitForWorkBeforeTheWindowWithoutCause) {
  sketch_.Wait(0, WorkKind::kOperator, step_, 1, 1, 10, 50, {{1, 4}, {9, 1}});
  sketch_.contents.works.push_back(
      {1, 5, WorkKind::kFetch, step_, Moment(0), ChunkId(1), 20, 30});
  Build();
  EXPECT_EQ(Wait().cause, -1);
  EXPECT_EQ(strings_.strings()[Wait().label], "wait");
}

TEST_F(SpansTest, NeverTakeAsCauseWhatBeganAfterTheWait) {
  const int64_t late = sketch_.Work(1, WorkKind::kFetch, step_, 0, 1, 80, 90);
  sketch_.Wait(0, WorkKind::kOperator, step_, 1, 1, 10, 50, {{1, late}});
  Build();
  EXPECT_EQ(Wait().cause, -1);
}

}  // namespace
}  // namespace castor
