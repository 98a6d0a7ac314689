#include "base/free_ranges.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace castor {
namespace {

using Ranges = FreeRanges<int>;

bool Always(int /*when*/) { return true; }
bool MergeEqual(int into, int other) { return into == other; }

std::vector<std::vector<int64_t>> Contents(const Ranges& ranges) {
  std::vector<std::vector<int64_t>> contents;
  for (const auto& [offset, range] : ranges) {
    contents.push_back({offset, range.bytes, range.when});
  }
  return contents;
}
using Rows = std::vector<std::vector<int64_t>>;

TEST(FreeRanges, NeighboursBecomeOneWhereTheirTimesDo) {
  Ranges ranges;
  ranges.Give(0, 10, 1, MergeEqual);
  ranges.Give(20, 10, 1, MergeEqual);
  ranges.Give(10, 10, 1, MergeEqual);
  EXPECT_EQ(Contents(ranges), (Rows{{0, 30, 1}}));
  ranges.Give(30, 5, 2, MergeEqual);
  EXPECT_EQ(Contents(ranges), (Rows{{0, 30, 1}, {30, 5, 2}}));
  EXPECT_EQ(ranges.LargestHole(), 35);
  ranges.Give(35, 0, 2, MergeEqual);  // nothing
  EXPECT_EQ(ranges.size(), 2);
}

TEST(FreeRanges, HoldsWhatIsFreeThroughout) {
  Ranges ranges;
  EXPECT_FALSE(ranges.Holds(0, 1));
  ranges.Give(10, 10, 1, MergeEqual);
  ranges.Give(20, 5, 2, MergeEqual);
  ranges.Give(30, 5, 1, MergeEqual);
  EXPECT_TRUE(ranges.Holds(10, 10));
  EXPECT_TRUE(ranges.Holds(10, 15));
  EXPECT_TRUE(ranges.Holds(19, 2));
  EXPECT_TRUE(ranges.Holds(30, 5));
  EXPECT_FALSE(ranges.Holds(9, 2));
  EXPECT_FALSE(ranges.Holds(24, 2));
  EXPECT_FALSE(ranges.Holds(25, 1));
  EXPECT_FALSE(ranges.Holds(20, 15)) << "with a gap";
  EXPECT_FALSE(ranges.Holds(31, 5));
  EXPECT_FALSE(ranges.Holds(40, 1));
}

TEST(FreeRanges, MergedTimesAreTheLaterOnes) {
  Ranges ranges;
  const auto latest = [](int& into, int other) {
    into = std::max(into, other);
    return true;
  };
  ranges.Give(0, 10, 3, latest);
  ranges.Give(20, 10, 7, latest);
  ranges.Give(10, 10, 5, latest);
  EXPECT_EQ(Contents(ranges), (Rows{{0, 30, 7}}));
}

TEST(FreeRanges, WhatIsTakenSpansRangesAndLeavesTheirEnds) {
  Ranges ranges;
  ranges.Give(0, 10, 1, MergeEqual);
  ranges.Give(10, 10, 2, MergeEqual);
  ranges.Give(20, 10, 3, MergeEqual);
  std::vector<int> times;
  ranges.Take(5, 20, [&](int when) { times.push_back(when); });
  EXPECT_EQ(times, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(Contents(ranges), (Rows{{0, 5, 1}, {25, 5, 3}}));
  ranges.Take(26, 2, [](int) {});
  EXPECT_EQ(Contents(ranges), (Rows{{0, 5, 1}, {25, 1, 3}, {28, 2, 3}}));
}

TEST(FreeRanges, FitsFromEitherEndInWhatIsUsable) {
  Ranges ranges;
  ranges.Give(0, 4, 1, MergeEqual);
  ranges.Give(8, 4, 2, MergeEqual);
  ranges.Give(12, 4, 1, MergeEqual);
  ranges.Give(20, 4, 1, MergeEqual);
  EXPECT_EQ(ranges.FitLow(4, Always), 0);
  EXPECT_EQ(ranges.FitLow(6, Always), 8);
  EXPECT_EQ(ranges.FitHigh(4, Always), 20);
  EXPECT_EQ(ranges.FitHigh(6, Always), 10);
  EXPECT_EQ(ranges.FitLow(9, Always), -1);
  EXPECT_EQ(ranges.FitHigh(9, Always), -1);
  const auto first = [](int when) { return when == 1; };
  EXPECT_EQ(ranges.FitLow(6, first), -1);
  EXPECT_EQ(ranges.FitHigh(3, first), 21);
}

// Beside a list of bytes: each taken, or free from some time on.
RC_GTEST_PROP(FreeRanges, AgreeWithAListOfBytes, ()) {
  constexpr int64_t kBytes = 40;
  std::vector<std::optional<int>> bytes(kBytes);
  Ranges ranges;
  const int64_t steps = *rc::gen::inRange(1, 60);
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t offset = *rc::gen::inRange<int64_t>(0, kBytes);
    const int64_t end = *rc::gen::inRange<int64_t>(offset + 1, kBytes + 1);
    const auto all = [&](bool free) {
      return std::all_of(bytes.begin() + offset, bytes.begin() + end,
                         [&](const auto& b) { return b.has_value() == free; });
    };
    if (all(true)) {
      std::vector<int> times, expected;
      ranges.Take(offset, end - offset,
                  [&](int when) { times.push_back(when); });
      for (int64_t i = offset; i < end; ++i) expected.push_back(*bytes[i]);
      std::fill(bytes.begin() + offset, bytes.begin() + end, std::nullopt);
      // Neighbours of equal time are one range.
      expected.erase(std::unique(expected.begin(), expected.end()),
                     expected.end());
      RC_ASSERT(times == expected);
    } else if (all(false)) {
      const int when = *rc::gen::inRange(0, 3);
      ranges.Give(offset, end - offset, when, MergeEqual);
      std::fill(bytes.begin() + offset, bytes.begin() + end, when);
    }
    // The free bytes, and the time of each.
    std::vector<std::optional<int>> seen(kBytes);
    for (const auto& [begin, range] : ranges) {
      RC_ASSERT(range.bytes > 0);
      for (int64_t i = begin; i < begin + range.bytes; ++i) {
        RC_ASSERT(!seen[i].has_value());
        seen[i] = range.when;
      }
    }
    RC_ASSERT(seen == bytes);
    // Fits.
    const int64_t wanted = *rc::gen::inRange<int64_t>(1, 12);
    const int limit = *rc::gen::inRange(0, 3);
    int64_t low = -1, high = -1;
    for (int64_t at = 0; at + wanted <= kBytes; ++at) {
      const bool fits =
          std::all_of(bytes.begin() + at, bytes.begin() + at + wanted,
                      [&](const auto& b) { return b && *b <= limit; });
      if (fits && low < 0) low = at;
      if (fits) high = at;
    }
    const auto usable = [&](int when) { return when <= limit; };
    RC_ASSERT(ranges.FitLow(wanted, usable) == low);
    RC_ASSERT(ranges.FitHigh(wanted, usable) == high);
  }
}

}  // namespace
}  // namespace castor
