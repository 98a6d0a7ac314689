#include "memory/plan/policy/close_candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace castor {
namespace {

struct Candidate {
  double score = 0;
  double step_ns = 0;
  double moved_bytes = 0;
};

Candidate Of(double step_ns, double moved_bytes) {
  return {step_ns, step_ns, moved_bytes};
}

TEST(CloseCandidates, TakesFewestBytesOfThoseAboutAsFast) {
  CloseCandidates<Candidate> close(Of(1'000'000, 50));
  close.Enter(Of(1'001'000, 40));
  close.Enter(Of(1'002'001, 10));  // too slow
  EXPECT_EQ(close.best().step_ns, 1'000'000);
  EXPECT_EQ(close.fewest_bytes().moved_bytes, 40);
}

TEST(CloseCandidates, ComparesWithTheFastestAlone) {
  // Each is alike the one before it; the last is not alike the first.
  CloseCandidates<Candidate> close(Of(1'003'000, 10));
  close.Enter(Of(1'001'500, 20));
  close.Enter(Of(1'000'000, 30));
  EXPECT_EQ(close.fewest_bytes().step_ns, 1'001'500);
}

TEST(CloseCandidates, TakesNoneWhoseStepIsLongThoughItsScoreIsClose) {
  CloseCandidates<Candidate> close(Of(1'000'000, 50));
  Candidate other = Of(1'000'500, 40);
  other.step_ns = 1'003'000;
  close.Enter(other);
  EXPECT_EQ(close.fewest_bytes().moved_bytes, 50);
}

TEST(CloseCandidates, TakesWhatLookingThroughAllTakesInAnyOrder) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<Candidate> all;
    for (uint64_t i = 0; i < 1 + seed % 20; ++i) {
      all.push_back(Of(1e6 + static_cast<double>(random() % 12 * 400),
                       static_cast<double>(random() % 8)));
    }
    CloseCandidates<Candidate> close(all[0]);
    for (size_t i = 1; i < all.size(); ++i) close.Enter(all[i]);
    double fastest_ns = all[0].step_ns;
    for (const Candidate& each : all) {
      fastest_ns = std::min(fastest_ns, each.step_ns);
    }
    double fewest = all[0].moved_bytes + 1e9;
    for (const Candidate& each : all) {
      if (each.step_ns > (1 + kAlike) * fastest_ns) continue;
      fewest = std::min(fewest, each.moved_bytes);
    }
    EXPECT_EQ(close.best().step_ns, fastest_ns);
    EXPECT_EQ(close.fewest_bytes().moved_bytes, fewest);
    EXPECT_LE(close.fewest_bytes().step_ns, (1 + kAlike) * fastest_ns);
  }
}

}  // namespace
}  // namespace castor
