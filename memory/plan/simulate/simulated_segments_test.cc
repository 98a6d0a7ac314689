#include "memory/plan/simulate/simulated_segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <vector>

namespace castor {
namespace {

using Place = SimulatedSegments::Place;

std::vector<int64_t> Offsets(SimulatedSegments& segments) {
  std::vector<int64_t> offsets;
  for (Place at = segments.begin(); at != segments.end();
       at = segments.Next(at)) {
    offsets.push_back(segments[at].offset);
  }
  return offsets;
}

std::vector<int64_t> OffsetsBackwards(SimulatedSegments& segments) {
  std::vector<int64_t> offsets;
  for (Place at = segments.end(); at != segments.begin();) {
    at = segments.Before(at);
    offsets.push_back(segments[at].offset);
  }
  return offsets;
}

// Grows to several hundred segments, so to many blocks, and shrinks to none.
TEST(SimulatedSegments, AgreeWithAMap) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int64_t end) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
    };
    SimulatedSegments segments;
    std::map<int64_t, int64_t> expected;  // offset -> bytes
    for (int i = 0; i < 2000; ++i) {
      const bool grows = i < 1000 ? below(3) > 0 : below(4) == 0;
      const int64_t offset = below(100'000);
      const auto behind = expected.lower_bound(offset);
      const Place at = segments.FirstFrom(offset);
      if (behind == expected.end()) {
        ASSERT_EQ(at, segments.end()) << "seed " << seed;
      } else {
        ASSERT_EQ(segments[at].offset, behind->first) << "seed " << seed;
        ASSERT_EQ(segments[at].bytes, behind->second) << "seed " << seed;
      }
      if (grows && !expected.contains(offset)) {
        const Place added = segments.Insert(at, {offset, i, 0});
        ASSERT_EQ(segments[added].offset, offset) << "seed " << seed;
        expected[offset] = i;
      } else if (!grows && behind != expected.end()) {
        const Place next = segments.Erase(at);
        const auto next_expected = expected.erase(behind);
        if (next_expected == expected.end()) {
          ASSERT_EQ(next, segments.end()) << "seed " << seed;
        } else {
          ASSERT_EQ(segments[next].offset, next_expected->first)
              << "seed " << seed;
        }
      }
      if (i % 7 == 0) {
        segments.push_back({200'000 + i, i, 0});
        expected[200'000 + i] = i;
      }
      if (i % 5 == 0 && !expected.empty()) {
        ASSERT_EQ(segments.back().offset, expected.rbegin()->first);
        segments.pop_back();
        expected.erase(std::prev(expected.end()));
      }
      if (i % 50 != 0) continue;
      std::vector<int64_t> offsets;
      for (const auto& [expected_offset, bytes] : expected) {
        offsets.push_back(expected_offset);
      }
      ASSERT_EQ(Offsets(segments), offsets) << "seed " << seed;
      std::reverse(offsets.begin(), offsets.end());
      ASSERT_EQ(OffsetsBackwards(segments), offsets) << "seed " << seed;
    }
    while (!segments.empty()) segments.pop_back();
    EXPECT_EQ(segments.begin(), segments.end());
  }
}

}  // namespace
}  // namespace castor
