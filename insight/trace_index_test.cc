#include "insight/trace_index.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "insight/trace_sketch.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TraceIndex, TakesTheLatestTraceOfASignature) {
  TraceSketch sketch;
  sketch.contents.step_traces.push_back(sketch.contents.step_traces[0]);
  sketch.contents.step_traces[1].ops[0].duration_ns = 777;
  sketch.AddPlan();  // of the first
  const TraceIndex index(sketch.contents);
  EXPECT_EQ(index.num_programs(), 1);
  EXPECT_EQ(index.ProgramOfPlan(0), 0);
  EXPECT_EQ(index.Op(0, 0)->duration_ns, 777);
}

TEST(TraceIndex, KnowsUsesDropsAndFetchesOfAChunk) {
  TraceSketch sketch;
  sketch.AddPlan();
  const TraceIndex index(sketch.contents);
  EXPECT_THAT(index.Uses(0, 1), ElementsAre(1, 2, 3, 7));
  EXPECT_EQ(index.NextUse(0, 1, 3), 7);
  EXPECT_EQ(index.NextUse(0, 1, 7), -1);
  EXPECT_EQ(index.LastReduce(0, 0), 5);
  EXPECT_EQ(index.NextDrop(0, 1, 2), 3);
  EXPECT_EQ(index.NextDrop(0, 1, 3), -1);
  const auto payload = [&](CopyDirection direction, int64_t moment) {
    return index.Copy(0, ChunkBlock::kPayload, direction, moment, 1);
  };
  EXPECT_EQ(payload(CopyDirection::kToDevice, 0)->because, Moment(1));
  EXPECT_EQ(payload(CopyDirection::kToHost, 3)->because, Moment(3));
  EXPECT_EQ(payload(CopyDirection::kToDevice, 3), nullptr);
  EXPECT_EQ(index.Copy(0, ChunkBlock::kSum, CopyDirection::kToHost, 3, 1),
            nullptr);
  // Fetched at the end for the next step: dropped at 5 of this one. Fetched at
  // 0: dropped at 3 of the step before.
  EXPECT_EQ(index.DropBefore(0, 0, 8)->moment, Moment(5));
  EXPECT_EQ(index.DropBefore(0, 1, 0)->moment, Moment(3));
  EXPECT_TRUE(index.StartsResident(0, 0));
  EXPECT_FALSE(index.StartsResident(0, 1));
  EXPECT_EQ(index.ChunksWithStates(0), 2);
}

TEST(TraceIndex, AnswersWhatIsOutOfRangeWithNone) {
  const TraceContents nothing;
  const TraceIndex index(nothing);
  EXPECT_EQ(index.num_streams(), 4);  // the usual ones
  EXPECT_EQ(index.Op(0, 0), nullptr);
  EXPECT_EQ(index.Chunk(-1, 3), nullptr);
  EXPECT_EQ(index.PlanOfStep(5), -1);
  EXPECT_EQ(index.ProgramOfStep(-1), -1);
  EXPECT_THAT(index.Uses(7, 7), IsEmpty());
  EXPECT_EQ(index.NextDrop(2, 0, 0), -1);
  EXPECT_EQ(index.DropBefore(2, 0, 0), nullptr);
  EXPECT_EQ(index.IssuedNs(0, 0), -1);
}

TEST(TraceIndex, FindsStreamsByName) {
  TraceSketch sketch;
  sketch.contents.run->streams = {"network", "host_compute", "compute"};
  const TraceIndex index(sketch.contents);
  EXPECT_EQ(index.compute(), 2);
  EXPECT_EQ(index.host_compute(), 1);
  EXPECT_EQ(index.to_device(), -1);
}

TEST(AddUpTo, StopsAtTheLargestNumber) {
  EXPECT_EQ(AddUpTo(2, 3), 5);
  EXPECT_EQ(AddUpTo(INT64_MAX - 1, 5), INT64_MAX);
}

}  // namespace
}  // namespace castor
