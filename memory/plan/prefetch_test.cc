#include "memory/plan/prefetch.h"

#include <gtest/gtest.h>

#include <vector>

#include "memory/plan/trace_builder.h"

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

}  // namespace
}  // namespace castor
