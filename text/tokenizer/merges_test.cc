#include "text/tokenizer/merges.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace castor::text {
namespace {

// Few tokens, more, and very many are merged in three ways. Words between which
// no merge reaches are merged alike alone and together.
TEST(Merges, AreTheSameHoweverManyTokensThereAre) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    // Texts have letters 0 to 2 and what becomes of them; 100 divides words.
    Merges merges(16);
    for (int32_t made = 3; made < 20; ++made) {
      merges.Add(static_cast<int32_t>(random() % made),
                 static_cast<int32_t>(random() % made), made);
    }
    std::vector<int32_t> together, want;
    while (together.size() < 70'000) {
      std::vector<int32_t> word;
      for (size_t i = 1 + random() % (random() % 8 == 0 ? 3000 : 40); i > 0;
           --i) {
        word.push_back(static_cast<int32_t>(random() % 3));
      }
      together.insert(together.end(), word.begin(), word.end());
      together.push_back(100);
      merges.Apply(0, &word);
      want.insert(want.end(), word.begin(), word.end());
      want.push_back(100);
    }
    merges.Apply(0, &together);
    ASSERT_EQ(together, want) << round;
  }
}

// By hand: runs of 1 become runs of 2, 4, ... 128, the leftmost first, so that
// the rest is at the end, in falling powers of two.
TEST(Merges, OfALongRunLeaveTheRestAtItsEnd) {
  Merges merges(16);
  for (int32_t id = 0; id < 7; ++id) merges.Add(id, id, id + 1);
  std::vector<int32_t> ids = {9};
  ids.insert(ids.end(), 1'000'000 + 37, 0);
  merges.Apply(1, &ids);
  // 1,000,037 = 7,812 x 128 + 64 + 32 + 4 + 1
  std::vector<int32_t> want = {9};
  want.insert(want.end(), 7812, 7);
  want.insert(want.end(), {6, 5, 2, 0});
  EXPECT_EQ(ids, want);
}

}  // namespace
}  // namespace castor::text
