#include "runtime/data/permutation.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <vector>

namespace castor {
namespace {

TEST(PermutedIndex, TakesEachPlaceOnceForEverySmallSize) {
  for (int64_t n = 1; n <= 300; ++n) {
    std::vector<bool> seen(n);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t image = PermutedIndex({7, 9}, n, i);
      ASSERT_GE(image, 0);
      ASSERT_LT(image, n);
      EXPECT_FALSE(seen[image]) << n;
      seen[image] = true;
    }
  }
}

TEST(PermutedIndexProperty, TakesEachPlaceOnce) {
  EXPECT_TRUE(rc::check([] {
    const auto n = *rc::gen::inRange<int64_t>(1, 5000);
    const RandomKey key{*rc::gen::arbitrary<uint64_t>(),
                        *rc::gen::arbitrary<uint64_t>()};
    std::vector<bool> seen(n);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t image = PermutedIndex(key, n, i);
      RC_ASSERT(image >= 0 && image < n && !seen[image]);
      seen[image] = true;
    }
  }));
}

TEST(PermutedIndex, ReachesFarInLargeDomains) {
  const int64_t n = (int64_t{1} << 40) + 12345;
  int64_t above_half = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t image = PermutedIndex({1, 2}, n, i);
    ASSERT_LT(image, n);
    if (image >= n / 2) ++above_half;
  }
  // Binomial(1000, 1/2): 6 standard deviations are 95.
  EXPECT_NEAR(above_half, 500, 95);
}

TEST(PermutedIndex, SpreadsEachPlaceEvenlyOverKeys) {
  // Counts where index 0 of 10 goes, over 10000 keys: 1000 times to each place,
  // with a standard deviation of 30.
  std::vector<int> count(10);
  for (uint64_t key = 0; key < 10000; ++key) {
    ++count[PermutedIndex({key, 0}, 10, 0)];
  }
  for (const int c : count) EXPECT_NEAR(c, 1000, 180);
}

TEST(PermutedIndex, DependsOnTheKey) {
  int same = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    if (PermutedIndex({1, 0}, 1000, i) == PermutedIndex({1, 1}, 1000, i)) {
      ++same;
    }
  }
  EXPECT_LT(same, 12);  // 1 expected
}

}  // namespace
}  // namespace castor
