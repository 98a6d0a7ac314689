#include "memory/plan/blocks/block_uses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace castor {
namespace {

std::string Picture(const BlockUses& uses) {
  std::string picture;
  for (const BlockUse use : uses) picture += ".or"[static_cast<int>(use)];
  return picture;
}

TEST(BlockUses, AreArrangedAsPictured) {
  std::vector<std::string> pictures;
  for (const Arrangement arrangement : kArrangements) {
    pictures.push_back(Picture(Arrange(arrangement, 8, 2, 3)));
  }
  EXPECT_EQ(pictures,
            (std::vector<std::string>{"oorrr...", "rrroo...", "orror...",
                                      "oor.r.r.", "rrro..o."}));
}

TEST(BlockUses, HaveTheNumbersThatTheyAreAskedFor) {
  for (int64_t blocks = 0; blocks <= 9; ++blocks) {
    for (int64_t offloaded = 0; offloaded <= blocks; ++offloaded) {
      for (int64_t remade = 0; offloaded + remade <= blocks; ++remade) {
        for (const Arrangement arrangement : kArrangements) {
          const BlockUses uses =
              Arrange(arrangement, blocks, offloaded, remade);
          ASSERT_EQ(static_cast<int64_t>(uses.size()), blocks);
          EXPECT_EQ(std::count(uses.begin(), uses.end(), BlockUse::kOffloaded),
                    offloaded);
          EXPECT_EQ(std::count(uses.begin(), uses.end(), BlockUse::kRemade),
                    remade);
        }
      }
    }
  }
}

TEST(BlockUses, HaveNeighboursThatDifferInOneOrInTwoSideBySide) {
  const BlockUse o = BlockUse::kOffloaded, r = BlockUse::kRemade,
                 k = BlockUse::kKept;
  EXPECT_TRUE(Neighbours({}).empty());
  const std::vector<BlockUses> of_one = Neighbours({r});
  EXPECT_EQ(of_one, (std::vector<BlockUses>{{k}, {o}}));
  const BlockUses uses = {o, o, r, k, k};
  const std::vector<BlockUses> neighbours = Neighbours(uses);
  // Two of each block, and two pairs of neighbours that change places.
  EXPECT_EQ(neighbours.size(), 2 * uses.size() + 2);
  // Where uses differ comes first.
  EXPECT_EQ(neighbours[0], (BlockUses{o, o, o, k, k}));
  EXPECT_EQ(neighbours[1], (BlockUses{o, r, r, k, k}));
  EXPECT_EQ(neighbours[2], (BlockUses{o, r, o, k, k}));
  const std::set<BlockUses> once(neighbours.begin(), neighbours.end());
  EXPECT_EQ(once.size(), neighbours.size());
  for (const BlockUses& other : neighbours) {
    ASSERT_EQ(other.size(), uses.size());
    int64_t differ = 0;
    for (size_t i = 0; i < uses.size(); ++i) differ += uses[i] != other[i];
    EXPECT_GE(differ, 1);
    EXPECT_LE(differ, 2);
    if (differ == 2) {
      EXPECT_TRUE(std::is_permutation(uses.begin(), uses.end(), other.begin()));
    }
  }
}

}  // namespace
}  // namespace castor
