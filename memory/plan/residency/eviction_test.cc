#include "memory/plan/residency/eviction.h"

#include <gtest/gtest.h>

#include <vector>

#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

std::vector<int64_t> NextUses(const UseIndex& index) {
  std::vector<int64_t> next;
  for (const Gap& gap : index.gaps()) next.push_back(gap.to);
  return next;
}

int64_t GapOf(const UseIndex& index, int64_t chunk, int64_t from) {
  for (size_t g = 0; g < index.gaps().size(); ++g) {
    const Gap& gap = index.gaps()[g];
    if (gap.chunk == chunk && gap.from == from) return static_cast<int64_t>(g);
  }
  ADD_FAILURE() << "no gap of chunk " << chunk << " from " << from;
  return 0;
}

// Where the optimizer states of all three chunks are on the host.
UseIndex IndexOf(const StepTrace& trace) {
  return UseIndex(trace, {Side::kHost, Side::kHost, Side::kHost});
}

// Returns what Evict leaves of a residency in which every chunk stays.
Residency Evicted(const UseIndex& index, const std::vector<int64_t>& room,
                  VictimRule rule = VictimRule::kFarthest) {
  Residency residency = StayEverywhere(index);
  Evict(index, room, NextUses(index), rule, residency);
  return residency;
}

// Three frozen chunks, used as 0 1 2 . 2 1 0.
StepTrace ThereAndBack() {
  return TraceBuilder()
      .Chunk(256, 0)
      .Chunk(256, 0)
      .Chunk(256, 0)
      .Read({0})
      .Read({1})
      .Read({2})
      .Read({})
      .Read({2})
      .Read({1})
      .Read({0})
      .Build();
}

TEST(Evict, LetsTheFarthestNextUseGo) {
  const StepTrace trace = ThereAndBack();
  const UseIndex index = IndexOf(trace);
  // Room for one that stays at moment 2, two at 3: 0 has to leave at 2, where 0
  // (next at 6) and 1 (next at 5) stay beside the operator's 2.
  const std::vector<int64_t> room = {1000, 1000, 256, 512, 1000, 1000, 1000};
  const Residency residency = Evicted(index, room);
  EXPECT_FALSE(residency[GapOf(index, 0, 0)].stays);
  EXPECT_EQ(residency[GapOf(index, 0, 0)].because, 2);
  EXPECT_TRUE(residency[GapOf(index, 1, 1)].stays);
  EXPECT_TRUE(residency[GapOf(index, 2, 2)].stays);
}

TEST(Evict, KeepsChunkUsedAtNextMoment) {
  const StepTrace trace = ThereAndBack();
  const UseIndex index = IndexOf(trace);
  const std::vector<int64_t> room = {1000, 1000, 1000, 256, 1000, 1000, 1000};
  const Residency residency = Evicted(index, room);
  EXPECT_TRUE(residency[GapOf(index, 2, 2)].stays);  // used at 4
  EXPECT_FALSE(residency[GapOf(index, 1, 1)].stays);
  EXPECT_FALSE(residency[GapOf(index, 0, 0)].stays);
}

TEST(Evict, SeesWhatReachesOverTheEndOfTheStep) {
  const StepTrace trace = ThereAndBack();
  const UseIndex index = IndexOf(trace);
  // At moment 0 chunks 1 (from 5, next at 1) and 2 (from 4, next at 2) stay.
  const std::vector<int64_t> room = {256, 1000, 1000, 1000, 1000, 1000, 1000};
  const Residency residency = Evicted(index, room);
  EXPECT_FALSE(residency[GapOf(index, 2, 4)].stays);
  EXPECT_TRUE(residency[GapOf(index, 1, 5)].stays);
}

TEST(Evict, PrefersCleanOnesOnTiesOrAlways) {
  // At moment 2 both 0, which is dirty, and 1 stay until 4, 2 until 5.
  const StepTrace trace = TraceBuilder()
                              .Chunk(256, 1536)
                              .Chunk(256, 0)
                              .Chunk(256, 1536)
                              .Write({0, 2})
                              .Read({1})
                              .Read({})
                              .Read({})
                              .Read({0, 1})
                              .Write({2})
                              .Reduce(0)
                              .Reduce(2)
                              .Update(0)
                              .Update(2)
                              .Build();
  const UseIndex index = IndexOf(trace);
  std::vector<int64_t> room(10, 1000);
  room[2] = 256;
  Residency residency = Evicted(index, room);
  EXPECT_FALSE(residency[GapOf(index, 2, 0)].stays);  // the farthest
  EXPECT_FALSE(residency[GapOf(index, 1, 1)].stays);  // clean, as far as 0
  EXPECT_TRUE(residency[GapOf(index, 0, 0)].stays);

  room[2] = 512;
  residency = Evicted(index, room, VictimRule::kCleanFirstFarthest);
  EXPECT_TRUE(residency[GapOf(index, 2, 0)].stays);
  EXPECT_FALSE(residency[GapOf(index, 1, 1)].stays);
  EXPECT_TRUE(residency[GapOf(index, 0, 0)].stays);
}

TEST(KeepWhatFits, PutsBackTheShortestGapThatFits) {
  const StepTrace trace = ThereAndBack();
  const UseIndex index = IndexOf(trace);
  Residency residency = StayEverywhere(index);
  for (GapChoice& choice : residency) choice.stays = false;
  Room room({0, 0, 256, 300, 256, 0, 0});
  KeepWhatFits(index, room, residency);
  for (size_t g = 0; g < residency.size(); ++g) {
    const Gap& gap = index.gaps()[g];
    EXPECT_EQ(residency[g].stays, gap.chunk == 2 && gap.from == 2);
  }
  EXPECT_EQ(room.Min(3, 4), 44);
}

}  // namespace
}  // namespace castor
