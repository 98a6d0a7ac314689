#include "memory/plan/addresses/packing.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace castor {
namespace {

bool LivesAt(const PackedBlock& block, int64_t time) {
  return block.begin < block.end ? block.begin <= time && time < block.end
                                 : time >= block.begin || time < block.end;
}

bool LiveAtOnce(const PackedBlock& a, const PackedBlock& b, int64_t length) {
  for (int64_t time = 0; time < length; ++time) {
    if (LivesAt(a, time) && LivesAt(b, time)) return true;
  }
  return false;
}

// Expects that no two that live at once overlap, and that all lie in the room.
void ExpectPacking(const std::vector<PackedBlock>& blocks, int64_t length,
                   int64_t room, const std::vector<int64_t>& offsets) {
  ASSERT_EQ(offsets.size(), blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_GE(offsets[i], 0);
    EXPECT_LE(offsets[i] + blocks[i].bytes, room);
    for (size_t j = 0; j < i; ++j) {
      if (!LiveAtOnce(blocks[i], blocks[j], length)) continue;
      EXPECT_TRUE(offsets[i] + blocks[i].bytes <= offsets[j] ||
                  offsets[j] + blocks[j].bytes <= offsets[i])
          << i << " at " << offsets[i] << ", " << j << " at " << offsets[j];
    }
  }
}

// Returns true if the blocks that have no offset yet can be placed beside the
// others: tries every offset in turn.
bool CanPack(const std::vector<PackedBlock>& blocks, int64_t length,
             int64_t room, std::vector<int64_t>& offsets) {
  const size_t next = offsets.size();
  if (next == blocks.size()) return true;
  for (int64_t at = 0; at + blocks[next].bytes <= room; ++at) {
    bool free = true;
    for (size_t j = 0; j < next && free; ++j) {
      free = at + blocks[next].bytes <= offsets[j] ||
             offsets[j] + blocks[j].bytes <= at ||
             !LiveAtOnce(blocks[next], blocks[j], length);
    }
    if (!free) continue;
    offsets.push_back(at);
    if (CanPack(blocks, length, room, offsets)) return true;
    offsets.pop_back();
  }
  return false;
}

std::vector<PackedBlock> RandomBlocks(std::mt19937& random, int64_t number,
                                      int64_t length, int64_t most_bytes) {
  const auto below = [&](int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random);
  };
  std::vector<PackedBlock> blocks;
  for (int64_t i = 0; i < number; ++i) {
    blocks.push_back(
        {.begin = below(length),
         .end = below(length + 1),
         .bytes = 1 + below(most_bytes),
         .from = below(2) == 0 ? PackFrom::kLow : PackFrom::kHigh});
  }
  return blocks;
}

TEST(MostLiveBytes, CountsAroundTheEnd) {
  EXPECT_EQ(MostLiveBytes({{.begin = 2, .end = 1, .bytes = 5},
                           {.begin = 0, .end = 2, .bytes = 3},
                           {.begin = 1, .end = 3, .bytes = 4}},
                          3),
            9);
  EXPECT_EQ(MostLiveBytes({{.begin = 1, .end = 1, .bytes = 5}}, 3), 5);
  EXPECT_EQ(MostLiveBytes({}, 3), 0);
}

TEST(Packing, NestsWhatIsMadeAndFreedLikeAStack) {
  const std::vector<PackedBlock> blocks = {{.begin = 0, .end = 6, .bytes = 2},
                                           {.begin = 1, .end = 3, .bytes = 3},
                                           {.begin = 3, .end = 5, .bytes = 3},
                                           {.begin = 4, .end = 5, .bytes = 1}};
  const auto offsets = Pack(blocks, 6, 6, 100);
  ASSERT_TRUE(offsets.has_value());
  EXPECT_EQ(*offsets, std::vector<int64_t>({0, 2, 2, 5}));
}

TEST(Packing, PlacesFromBothEnds) {
  const auto offsets =
      Pack({{.begin = 0, .end = 2, .bytes = 2},
            {.begin = 0, .end = 2, .bytes = 3, .from = PackFrom::kHigh}},
           2, 10, 100);
  EXPECT_EQ(offsets, std::vector<int64_t>({0, 7}));
}

TEST(Packing, FindsNothingInLessRoomThanLivesAtOnce) {
  const std::vector<PackedBlock> blocks = {{.begin = 0, .end = 2, .bytes = 2},
                                           {.begin = 1, .end = 3, .bytes = 3}};
  EXPECT_FALSE(Pack(blocks, 3, 4, 100).has_value());
  EXPECT_TRUE(Pack(blocks, 3, 5, 100).has_value());
  EXPECT_FALSE(Pack(blocks, 3, 5, 0).has_value()) << "without any effort";
  EXPECT_TRUE(Pack({}, 1, 0, 1).has_value());
}

TEST(Packing, NeverOverlaps) {
  std::mt19937 random(7);
  int64_t found = 0;
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    const int64_t length = 1 + static_cast<int64_t>(random() % 40);
    const auto blocks = RandomBlocks(
        random, static_cast<int64_t>(random() % 60), length, 1 + random() % 50);
    const int64_t least = MostLiveBytes(blocks, length);
    const int64_t room = least + least * static_cast<int64_t>(random() % 4) / 8;
    const auto offsets = Pack(blocks, length, room, 2000);
    if (!offsets.has_value()) continue;
    ++found;
    ExpectPacking(blocks, length, room, *offsets);
  }
  EXPECT_GT(found, 150);
}

// It finds none where there is none, and most where there is one.
TEST(Packing, AgreesWithBruteForceOnSmallInstances) {
  std::mt19937 random(11);
  int64_t there = 0, found = 0;
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(i);
    const int64_t length = 2 + static_cast<int64_t>(random() % 6);
    const auto blocks =
        RandomBlocks(random, 2 + static_cast<int64_t>(random() % 6), length, 4);
    const int64_t room = MostLiveBytes(blocks, length);
    std::vector<int64_t> by_force;
    const bool possible = CanPack(blocks, length, room, by_force);
    const auto offsets = Pack(blocks, length, room, 500);
    there += possible;
    found += offsets.has_value();
    if (offsets.has_value()) {
      EXPECT_TRUE(possible);
      ExpectPacking(blocks, length, room, *offsets);
    }
  }
  EXPECT_GT(there, 300);
  EXPECT_GE(found * 100, there * 97);
}

}  // namespace
}  // namespace castor
