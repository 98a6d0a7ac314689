#include "insight/wait_causes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "insight/notes.h"
#include "insight/trace_sketch.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Times in milliseconds: copies that lie back to back may be 0.1 ms apart.
constexpr int64_t kMs = 1'000'000;

class WaitCausesTest : public ::testing::Test {
 protected:
  int64_t Work(int64_t stream, WorkKind kind, int64_t moment, int64_t chunk,
               int64_t start, int64_t end) {
    return sketch_.Work(stream, kind, step_, moment, chunk, start * kMs,
                        end * kMs);
  }
  int64_t Wait(int64_t stream, WorkKind kind, int64_t moment, int64_t chunk,
               int64_t start, int64_t end, WaitRecord::Untils until) {
    return sketch_.Wait(stream, kind, step_, moment, chunk, start * kMs,
                        end * kMs, std::move(until));
  }
  // Operator 1 waits from `start` to `end` for chunk 1.
  void Compute(int64_t start, int64_t end, int64_t fetch) {
    Wait(0, WorkKind::kOperator, 1, 1, start, end, {{1, fetch}});
  }
  // Finds the cause of the compute stream's only wait.
  void Find() {
    const TraceIndex index(sketch_.contents);
    StringTable strings;
    list_ = BuildSpans(index, strings);
    causes_ = FindWaitCauses(index, list_);
    WriteNotes(index, causes_, list_, strings);
    for (size_t i = 0; i < list_.spans.size(); ++i) {
      const TraceView::Span& span = list_.spans[i];
      if (span.kind >= 0 || span.stream != 0) continue;
      finding_ = causes_.findings[i];
      note_ = strings.strings()[span.note];
      break;
    }
  }
  int64_t OptimizerMs() const {
    int64_t ns = 0;
    for (const ExposedPiece& piece : causes_.pieces) {
      if (piece.to == ExposedTo::kOptimizer)
        ns += piece.end_ns - piece.start_ns;
    }
    return ns / kMs;
  }
  int64_t PiecesMs() const {
    int64_t ns = 0;
    for (const ExposedPiece& piece : causes_.pieces) {
      ns += piece.end_ns - piece.start_ns;
    }
    return ns / kMs;
  }
  Exposure ExposureOn(int64_t stream) const {
    for (size_t i = 0; i < list_.spans.size(); ++i) {
      if (list_.spans[i].kind < 0 && list_.spans[i].stream == stream) {
        return causes_.findings[i].exposure;
      }
    }
    ADD_FAILURE() << "no wait on stream " << stream;
    return Exposure::kNone;
  }

  TraceSketch sketch_;
  const int64_t step_ = sketch_.AddStep(1, sketch_.AddPlan(), 0);
  SpanList list_;
  WaitCauses causes_;
  WaitFinding finding_;
  std::string note_;
};

// Copies 0-40, 40-80 and the awaited one 80-100; the wait is 90-100. The bus
// worked for ten times as long as the wait.
TEST_F(WaitCausesTest, BlamesTheBusForCopiesBackToBack) {
  Work(1, WorkKind::kFetch, 0, 0, 0, 40);
  Work(1, WorkKind::kFetch, 0, 0, 40, 80);
  Compute(90, 100, Work(1, WorkKind::kFetch, 0, 1, 80, 100));
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kBus);
  EXPECT_TRUE(finding_.back_to_back);
  EXPECT_EQ(PiecesMs(), 10);
  EXPECT_EQ(OptimizerMs(), 0);
  EXPECT_THAT(
      note_,
      AllOf(HasSubstr("\"b/forward\" needs chunk 1 (b.weight, b.bias and 1 "
                      "more), which was still on its way: the copies before"),
            HasSubstr("The plan fetches it for \"b/forward\", 1 operator "
                      "ahead."),
            HasSubstr("because the CPU adds up its gradients"),
            HasSubstr("a faster bus (the plan counts on 954 MiB/s)")));
}

// A copy of 50 beside 40 of operators: alone, and still too slow.
TEST_F(WaitCausesTest, BlamesTheBusForOneLongCopy) {
  Compute(40, 50, Work(1, WorkKind::kFetch, 0, 1, 0, 50));
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kBus);
  EXPECT_FALSE(finding_.back_to_back);
  EXPECT_THAT(note_, HasSubstr("its copy takes longer than the operators"));
}

// The fetch could only start at 50, when the operator was over that used the
// bytes; the wait begins at once.
TEST_F(WaitCausesTest, BlamesRoomThatAnOperatorStillUsed) {
  const int64_t op = Work(0, WorkKind::kOperator, 0, -1, 0, 50);
  Wait(1, WorkKind::kFetch, 0, 1, 0, 50, {{0, op}});
  Compute(50, 70, Work(1, WorkKind::kFetch, 0, 1, 50, 70));
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kRoomOperator);
  EXPECT_EQ(ExposureOn(1), Exposure::kPassedOn);
  EXPECT_THAT(note_, HasSubstr("whose fetch could start only when "
                               "\"a/forward\" was over"));
  // Chunk 1 left for the CPU's sake: its optimizer states would have to fit.
  EXPECT_THAT(note_, HasSubstr("5.86 KiB more of memory.device_memory, so that "
                               "optimizer states of the chunk find room"));
}

TEST_F(WaitCausesTest, BlamesRoomOfAnotherChunkThatWasCopiedBack) {
  const int64_t back = Work(2, WorkKind::kCopyBack, 0, 0, 0, 60);
  Wait(1, WorkKind::kFetch, 0, 1, 10, 60, {{2, back}});
  Compute(50, 80, Work(1, WorkKind::kFetch, 0, 1, 60, 80));
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kRoomCopyBack);
  EXPECT_THAT(note_, HasSubstr("the copy back of chunk 0 (a.weight)"));
}

// Update 0-60, fetch 60-80, wait 30-80: 30 of it are the optimizer's, 20 the
// copy's.
TEST_F(WaitCausesTest, DividesAWaitAlongItsChain) {
  const int64_t update = Work(3, WorkKind::kUpdate, 7, 1, 0, 60);
  Wait(1, WorkKind::kFetch, 0, 1, 10, 60, {{3, update}});
  Compute(30, 80, Work(1, WorkKind::kFetch, 0, 1, 60, 80));
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kHostUpdate);
  EXPECT_EQ(OptimizerMs(), 30);
  EXPECT_EQ(PiecesMs(), 50);
  EXPECT_THAT(note_, AllOf(HasSubstr("until the CPU had done the update of "
                                     "chunk 1"),
                           HasSubstr("device.threads is 2")));
}

// The copy back of the same chunk must be over before it is fetched again.
TEST_F(WaitCausesTest, TellsGradientsOnTheirWayFromRoom) {
  const int64_t back = Work(2, WorkKind::kCopyBack, 3, 1, 0, 60);
  Wait(1, WorkKind::kFetch, 0, 1, 10, 60, {{2, back}});
  Compute(50, 80, Work(1, WorkKind::kFetch, 0, 1, 60, 80));
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kGradientsCopied);
}

// The norm: last sum 0-40 on the CPU, norm 40-50, scale to the device 50-55.
TEST_F(WaitCausesTest, FollowsTheNormBackToTheLastGradient) {
  Work(3, WorkKind::kReduce, 5, 0, 0, 40);
  const int64_t norm = Work(3, WorkKind::kClip, -1, -1, 40, 50);
  Wait(1, WorkKind::kClip, -1, -1, 0, 50, {{3, norm}});
  const int64_t scale = Work(1, WorkKind::kClip, -1, -1, 50, 55);
  Wait(0, WorkKind::kUpdate, 7, 1, 20, 55, {{1, scale}});
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kGradientNorm);
  EXPECT_EQ(OptimizerMs(), 35);
  EXPECT_THAT(note_, AllOf(HasSubstr("The update of chunk 1"),
                           HasSubstr("here with the sum of the gradients of "
                                     "chunk 0"),
                           HasSubstr("gradient_clipping 0")));
}

TEST_F(WaitCausesTest, BlamesTheCopyWhoseBytesAnOperatorTakes) {
  const int64_t back = Work(2, WorkKind::kCopyBack, 3, 0, 0, 60);
  Wait(0, WorkKind::kOperator, 4, -1, 50, 60, {{2, back}});
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kOperatorRoom);
}

// Nothing on the bus from 10 to 60, where the host thread, which issued the
// operator before at 55, queued the fetch.
TEST_F(WaitCausesTest, BlamesTheHostThreadForACopyThatWasQueuedLate) {
  Work(1, WorkKind::kFetch, 0, 0, 0, 10);
  sketch_.Issue(step_, 1, 55 * kMs, {0, 0});
  Wait(0, WorkKind::kOperator, 2, 1, 20, 80,
       {{1, Work(1, WorkKind::kFetch, 2, 1, 60, 80)}});
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kIssuedLate);
}

// The room was free at 10; the bus's thread went on at 60.
TEST_F(WaitCausesTest, BlamesNobodyFurtherBackForAThreadThatCameLate) {
  const int64_t op = Work(0, WorkKind::kOperator, 0, -1, 0, 10);
  Wait(1, WorkKind::kFetch, 0, 1, 0, 60, {{0, op}});
  Compute(20, 65, Work(1, WorkKind::kFetch, 0, 1, 60, 65));
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kWokenLate);
  EXPECT_THAT(note_, AllOf(HasSubstr("the stream's thread got no CPU"),
                           HasSubstr("CPUs that nothing else uses")));
}

TEST_F(WaitCausesTest, BlamesTheWaitersOwnThreadToo) {
  Compute(20, 80, Work(1, WorkKind::kFetch, 0, 1, 0, 30));
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kWokenLate);
}

TEST_F(WaitCausesTest, SaysSoWhenTheTraceDoesNotHoldTheCause) {
  Compute(10, 20, 1);
  Find();
  EXPECT_EQ(finding_.cause, WaitCause::kUnknown);
  EXPECT_THAT(note_, HasSubstr("queued before the window"));
  EXPECT_EQ(PiecesMs(), 10);
}

// A copy stream that waits for what it is to copy costs nothing by itself.
TEST_F(WaitCausesTest, TellsWaitsThatCostNoTime) {
  const int64_t op = Work(0, WorkKind::kOperator, 2, -1, 0, 50);
  Wait(2, WorkKind::kCopyBack, 3, 1, 0, 50, {{0, op}});
  Find();
  EXPECT_EQ(ExposureOn(2), Exposure::kNone);
  const TraceIndex index(sketch_.contents);
  EXPECT_THAT(
      RemedyText(index, causes_.findings[1], nullptr, 0, nullptr, false),
      HasSubstr("It cost no time"));
}

TEST_F(WaitCausesTest, PromisesNothingThatThePlanCannotGive) {
  PlanRecord plan = sketch_.contents.plans[0];
  const TraceIndex index(sketch_.contents);
  const auto remedy = [&](WaitCause cause) {
    return RemedyText(index, {.cause = cause, .exposure = Exposure::kCompute},
                      &plan, 0, nullptr, false);
  };
  EXPECT_THAT(remedy(WaitCause::kRoomOperator),
              Not(HasSubstr("placement_policy")));
  plan.policy = "cpu";
  EXPECT_THAT(remedy(WaitCause::kRoomOperator),
              HasSubstr("memory.placement_policy \"auto\""));
  plan.prefetch = false;
  EXPECT_THAT(remedy(WaitCause::kRoomOperator),
              HasSubstr("memory.prefetch true"));
  // All optimizer states are there: no memory holds more of them.
  plan.device_side = {ChunkId(0), ChunkId(1)};
  EXPECT_THAT(remedy(WaitCause::kGradientNorm),
              Not(HasSubstr("optimizer states")));
  plan.warmup = true;
  EXPECT_THAT(remedy(WaitCause::kBus), HasSubstr("Nothing to do"));
}

}  // namespace
}  // namespace castor
