#include "memory/plan/residency/prefetch.h"

#include <gtest/gtest.h>

#include <vector>

#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

// Operators of 100 ns, chunks of 256 bytes: 256 ns each on the bus.
struct Fixture {
  StepTrace trace = TraceBuilder()
                        .Chunk(256, 0)
                        .Chunk(256, 0)
                        .Read({0, 1}, 0, 100)  // 0
                        .Read({}, 0, 100)      // 1
                        .Read({}, 0, 100)      // 2
                        .Read({}, 0, 100)      // 3
                        .Read({}, 0, 100)      // 4
                        .Read({}, 0, 100)      // 5
                        .Read({}, 0, 100)      // 6
                        .Read({0}, 0, 100)     // 7
                        .Read({1}, 0, 100)     // 8
                        .Build();
  UseIndex index{trace, {Side::kHost, Side::kHost}};
  // Gaps by chunk: 0 -> 7, 7 -> 9; 0 -> 8 (8 -> 9 is none).
};

TEST(DueMoments, ChainsCopiesThatFollowEachOther) {
  const Fixture f;
  Residency residency = StayEverywhere(f.index);
  residency[0].stays = false;  // chunk 0 for 7
  residency[2].stays = false;  // chunk 1 for 8
  const std::vector<int64_t> fetches = FetchesByNeed(f.index, residency);
  ASSERT_EQ(fetches, (std::vector<int64_t>{0, 2}));
  // Chunk 1 from 800 - 256 = 544, in operator 5; chunk 0 by then, not by 700,
  // so from 288, in operator 2.
  EXPECT_EQ(DueMoments(f.index, ByteBus(), 1, fetches),
            (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(DueMoments(f.index, ByteBus(), 0, fetches),
            (std::vector<int64_t>{7, 8}));
}

TEST(LoneDueMoments, LookAtOneFetchOnly) {
  const Fixture f;
  // 700 - 256 = 444; 900 - 256 = 644, but not before 8; 800 - 256 = 544.
  EXPECT_EQ(LoneDueMoments(f.index, ByteBus(), 1),
            (std::vector<int64_t>{4, 8, 5}));
}

TEST(MoveFetchesUp, StopsWhereRoomEnds) {
  const Fixture f;
  Residency residency = StayEverywhere(f.index);
  residency[0].stays = false;
  residency[2].stays = false;
  Room room({900, 900, 900, 0, 256, 512, 512, 256, 900});
  const std::vector<int64_t> fetches = FetchesByNeed(f.index, residency);
  MoveFetchesUp(f.index, fetches, {0, 0}, room, residency);
  EXPECT_EQ(residency[0].fetch_at, 4);  // moment 3 is full
  EXPECT_EQ(residency[2].fetch_at, 5);  // moment 4 is full of chunk 0
  EXPECT_EQ(room.Min(4, 8), 0);
}

// Both gaps of chunk 0 and that of chunk 1 left: uses at 0, 7, 8 of the step.
TEST(EarliestMoments, LetFewBeOnTheirWay) {
  const Fixture fixture;
  Residency residency = StayEverywhere(fixture.index);
  for (GapChoice& choice : residency) choice.stays = false;
  const std::vector<int64_t> fetches = FetchesByNeed(fixture.index, residency);
  ASSERT_EQ(fetches.size(), 3u);
  const auto to = [&](size_t i) { return fixture.index.gaps()[fetches[i]].to; };
  ASSERT_EQ((std::vector<int64_t>{to(0), to(1), to(2)}),
            (std::vector<int64_t>{7, 8, 9}));
  // Each from the use of the one before it: 0, 7, and 8.
  EXPECT_EQ(EarliestMoments(fixture.index, fetches, 1),
            (std::vector<int64_t>{0, 7, 8}));
  // From that of the one before that: 8 of the step before, 0, and 7.
  EXPECT_EQ(EarliestMoments(fixture.index, fetches, 2),
            (std::vector<int64_t>{-1, 0, 7}));
  EXPECT_EQ(EarliestMoments(fixture.index, fetches, 3),
            (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(EarliestMoments(fixture.index, fetches, 0),
            (std::vector<int64_t>{0, 0, 0}));
}

// Two chunks of 256 bytes that are written at 0 and leave: 256 ns each on the
// bus, so that the first is home during operator 3, the second during 6.
TEST(TakeUntilCopiedBack, HoldsWhatTheBusIsNotDoneWith) {
  TraceBuilder builder;
  builder.Chunk(256, 0).Chunk(256, 0).Write({0, 1}, 0, 100);
  for (int t = 1; t < 9; ++t) builder.Read({}, 0, 100);
  builder.Read({0, 1}, 0, 100);
  const StepTrace trace = builder.Build();
  const UseIndex index(trace, {Side::kHost, Side::kHost});
  Residency residency = StayEverywhere(index);
  int64_t left = 0;
  for (size_t g = 0; g < residency.size(); ++g) {
    const Gap& gap = index.gaps()[g];
    if (!gap.dirty || gap.from != 0) continue;
    residency[g] = {false, gap.to, -1};
    ++left;
  }
  ASSERT_EQ(left, 2);
  BusModel bus;
  bus.d2h_bytes_per_s = 1e9;
  bus.latency_ns = 0;
  Room ample(std::vector<int64_t>(10, 1000));
  TakeUntilCopiedBack(index, bus, residency, ample);
  EXPECT_EQ(ample.Values(), (std::vector<int64_t>{1000, 488, 488, 488, 744, 744,
                                                  744, 1000, 1000, 1000}));
  // Where there is no room for it, none is taken.
  Room narrow(std::vector<int64_t>(10, 300));
  TakeUntilCopiedBack(index, bus, residency, narrow);
  EXPECT_EQ(narrow.Values(), (std::vector<int64_t>{300, 44, 44, 44, 300, 300,
                                                   300, 300, 300, 300}));
}

}  // namespace
}  // namespace castor
