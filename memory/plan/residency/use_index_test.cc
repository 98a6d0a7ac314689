#include "memory/plan/residency/use_index.h"

#include <gtest/gtest.h>

#include <vector>

#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

constexpr Side kHost = Side::kHost;
constexpr Side kDevice = Side::kDevice;

// Chunk 1 is frozen.
StepTrace Trace() {
  return TraceBuilder()
      .Chunk(256, 1536)
      .Chunk(512, 0)
      .Read({0}, 0, 10)   // 0
      .Read({1}, 0, 20)   // 1
      .Write({0}, 0, 30)  // 2
      .Reduce(0, 5, 7)    // 3
      .Update(0, 5, 9)    // 4
      .Build();
}

TEST(UseIndex, ForcesOutWhatTheHostWorksOn) {
  const UseIndex index(Trace(), {kHost, kHost});
  ASSERT_EQ(index.gaps().size(), 3u);
  const Gap& forward = index.gaps()[0];  // of chunk 0, until its backward
  EXPECT_EQ(forward.from, 0);
  EXPECT_EQ(forward.to, 2);
  EXPECT_FALSE(forward.forced());
  EXPECT_FALSE(forward.dirty);
  const Gap& update = index.gaps()[1];
  EXPECT_EQ(update.from, 2);
  EXPECT_EQ(update.to, 5);
  EXPECT_EQ(update.forced_by, 3);
  EXPECT_EQ(update.ready, 5);  // after kUpdate at 4
  EXPECT_TRUE(update.dirty);
}

TEST(UseIndex, CountsOptimizerAsUseOnTheDevice) {
  const UseIndex index(Trace(), {kDevice, kHost});
  // 0 -> 2 and 1 -> 1 in the next step; 2, 3, 4 and 0 follow each other.
  ASSERT_EQ(index.gaps().size(), 2u);
  EXPECT_EQ(index.gaps()[0].from, 0);
  EXPECT_EQ(index.gaps()[0].to, 2);
  EXPECT_TRUE(index.gaps()[0].dirty);  // since the update of the step before
  EXPECT_EQ(index.gaps()[1].chunk, 1);
  EXPECT_EQ(index.gaps()[1].from, 1);
  EXPECT_EQ(index.gaps()[1].to, 6);
  EXPECT_FALSE(index.gaps()[1].dirty);
  ASSERT_EQ(index.uses(0).size(), 4u);
  EXPECT_EQ(index.uses(0)[3].gap, -1);
}

TEST(UseIndex, TimesOnlyWhatRunsOnTheDevice) {
  const UseIndex host(Trace(), {kHost, kHost});
  EXPECT_EQ(host.start_ns(), (std::vector<int64_t>{0, 10, 30, 60, 60, 60}));
  const UseIndex device(Trace(), {kDevice, kHost});
  EXPECT_EQ(device.start_ns(), (std::vector<int64_t>{0, 10, 30, 60, 67, 76}));
  EXPECT_EQ(device.StartNs(6), 86);
  EXPECT_EQ(device.MomentAt(29), 1);
  EXPECT_EQ(device.MomentAt(30), 2);
  EXPECT_EQ(device.MomentAt(86), 6);
}

TEST(UseIndex, FindsTheMomentOfEveryTime) {
  // Most of the time in one operator, some in none.
  const int64_t durations[] = {0, 3, 0, 0, 900, 1, 1, 0, 7, 2, 0};
  TraceBuilder builder;
  builder.Chunk(256, 0);
  for (const int64_t duration_ns : durations) builder.Read({0}, 0, duration_ns);
  const UseIndex index(builder.Build(), {kHost});
  const int64_t moments = index.moments();
  for (int64_t time_ns = 0; time_ns <= 2 * index.StartNs(moments); ++time_ns) {
    int64_t last = 0;
    for (int64_t t = 0; t <= 2 * moments; ++t) {
      if (index.StartNs(t) <= time_ns) last = t;
    }
    EXPECT_EQ(index.MomentAt(time_ns), last) << time_ns;
  }
}

TEST(UseIndex, SortsGapsByBeginAndNeed) {
  const UseIndex index(Trace(), {kHost, kHost});
  // Chunk 0 has gaps from 0 to 2 and from 2 to 5, chunk 1 from 1 to 6.
  EXPECT_EQ(index.gaps_by_begin(), (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ(index.begin_of(1), 0);
  EXPECT_EQ(index.begin_of(2), 1);
  EXPECT_EQ(index.begin_of(3), 2);
  EXPECT_EQ(index.begin_of(4), 3);
  EXPECT_EQ(index.gaps_by_need(), (std::vector<int64_t>{0, 1, 2}));
}

// Two micro batches of one chunk.
StepTrace TwoMicroBatches() {
  return TraceBuilder()
      .MicroBatches(2)
      .Chunk(256, 1536)
      .Read({0})   // 0
      .Write({0})  // 1
      .Read({})    // 2
      .Write({0})  // 3
      .Reduce(0)   // 4
      .Read({0})   // 5
      .Write({0})  // 6
      .Reduce(0)   // 7
      .Update(0)   // 8
      .Build();
}

TEST(UseIndex, LetsChunkStayOverReduceFromItsGradientBlock) {
  const StepTrace trace = TwoMicroBatches();
  const std::vector<GradientBlock> blocks =
      PossibleGradientBlocks(trace, {kHost});
  // The last micro batch has none: its update makes the payload stale.
  EXPECT_EQ(blocks, (std::vector<GradientBlock>{{.chunk = 0,
                                                 .bytes = 256,
                                                 .from = 1,
                                                 .reduce = 4,
                                                 .drop = 4,
                                                 .next_write = 6}}));
  EXPECT_TRUE(PossibleGradientBlocks(trace, {kDevice}).empty());

  const UseIndex index(trace, {kHost}, blocks);
  ASSERT_EQ(index.gaps().size(), 3u);
  const Gap& between = index.gaps()[0];  // of the block's two operators
  EXPECT_EQ(between.from, 1);
  EXPECT_EQ(between.to, 3);
  EXPECT_EQ(between.ready, 2);
  EXPECT_FALSE(between.dirty);
  const Gap& reduce = index.gaps()[1];
  EXPECT_EQ(reduce.from, 3);
  EXPECT_EQ(reduce.to, 5);
  EXPECT_FALSE(reduce.forced());
  EXPECT_FALSE(reduce.dirty);
  EXPECT_EQ(reduce.ready, 5);  // the home has gradients until 4 is over
  EXPECT_TRUE(index.gaps()[2].forced());
  EXPECT_EQ(index.gaps()[2].forced_by, 7);
  EXPECT_TRUE(index.gaps()[2].dirty);

  const UseIndex without(trace, {kHost});
  EXPECT_TRUE(without.gaps()[0].dirty);
  EXPECT_EQ(without.gaps()[1].forced_by, 4);
}

TEST(UseIndex, LeavesThePayloadForNothingAfterTheDeviceHasAddedUp) {
  StepTrace trace = TwoMicroBatches();
  const std::vector<GradientBlock> possible =
      PossibleGradientBlocks(trace, {kHost});
  // Without a sum's bytes its room is not known.
  EXPECT_TRUE(PossibleDeviceSums(trace, {kHost}, possible).empty());
  trace.chunks[0].sum_bytes = 500;
  EXPECT_TRUE(PossibleDeviceSums(trace, {kDevice}, {}).empty());
  EXPECT_TRUE(PossibleDeviceSums(trace, {kHost}, {}).empty());
  const std::vector<PossibleSum> sums =
      PossibleDeviceSums(trace, {kHost}, possible);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(
      sums[0].sum,
      (DeviceSum{.chunk = 0, .bytes = 512, .from = 4, .reduce = 7, .drop = 8}));
  ASSERT_EQ(sums[0].blocks.size(), 1u);
  EXPECT_EQ(sums[0].blocks[0].drop, 5);  // the reduce reads it
  EXPECT_FALSE(sums[0].blocks[0].sent);

  const UseIndex index(trace, {kHost}, sums[0].blocks, {sums[0].sum});
  // Nothing comes for the reduce of the first micro batch, the second one's is
  // a use, and what comes after its update is clean.
  ASSERT_EQ(index.uses(0).back().moment, 7);
  EXPECT_TRUE(index.uses(0).back().spends);
  const Gap& reduce = index.gaps()[1];
  EXPECT_EQ(reduce.from, 3);
  EXPECT_EQ(reduce.to, 5);
  EXPECT_EQ(reduce.ready, 4);  // the home has parameters all the time
  EXPECT_FALSE(reduce.forced());
  const Gap& update = index.gaps().back();
  EXPECT_EQ(update.from, 7);
  EXPECT_EQ(update.forced_by, 8);
  EXPECT_FALSE(update.dirty);
  // A copy back right after a reduce may be of a sum.
  EXPECT_TRUE(MayBeSum(trace, 8, 0));
  EXPECT_FALSE(MayBeSum(trace, 7, 0));
  EXPECT_FALSE(MayBeSum(trace, 0, 0));
}

TEST(UseIndex, LeavesOutPinnedChunks) {
  const StepTrace trace =
      TraceBuilder().Evaluation().Chunk(256, 1536).Read({0}).Read({}).Build();
  EXPECT_TRUE(UseIndex(trace, {kDevice}).uses(0).empty());
  EXPECT_EQ(UseIndex(trace, {kHost}).gaps().size(), 1u);
}

}  // namespace
}  // namespace castor
