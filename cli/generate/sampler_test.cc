#include "cli/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace castor::cli {
namespace {

TEST(Sampler, TakesTheFirstOfTheLikeliestWithoutTemperature) {
  const Sampler sampler({});
  EXPECT_EQ(sampler.Next({1, 3, 2, 3}, 0), 1);
  EXPECT_EQ(sampler.Next({-3, -2, -1}, 5), 2);
  const float lowest = std::numeric_limits<float>::lowest();
  EXPECT_EQ(sampler.Next({lowest, lowest}, 0), 0);
}

// The share of each token among many draws.
std::vector<double> Shares(const Sampler& sampler,
                           const std::vector<float>& logits) {
  constexpr int kDraws = 20'000;
  std::vector<double> shares(logits.size());
  for (int i = 0; i < kDraws; ++i) {
    shares[sampler.Next(logits, i)] += 1.0 / kDraws;
  }
  return shares;
}

// A share of 20,000 independent draws lies within 5 standard deviations, 0.018,
// of its probability in all but one of a million cases.
constexpr double kTolerance = 0.018;

TEST(Sampler, DrawsInProportionToTheProbabilities) {
  const std::vector<float> logits = {0, std::log(2.0f), -200, std::log(5.0f)};
  const auto plain = Shares(Sampler({.temperature = 1, .seed = 3}), logits);
  EXPECT_NEAR(plain[0], 1.0 / 8, kTolerance);
  EXPECT_NEAR(plain[1], 2.0 / 8, kTolerance);
  EXPECT_EQ(plain[2], 0);
  EXPECT_NEAR(plain[3], 5.0 / 8, kTolerance);
  // exp(log(x) / 0.5) = x^2.
  const auto sharp = Shares(Sampler({.temperature = 0.5, .seed = 3}), logits);
  EXPECT_NEAR(sharp[0], 1.0 / 30, kTolerance);
  EXPECT_NEAR(sharp[3], 25.0 / 30, kTolerance);
}

TEST(Sampler, DrawsAmongTheLikeliestAlone) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f)};
  // 5 / 8 of the probability is enough for 0.6, not for 0.7.
  const Sampler one({.temperature = 1, .top_p = 0.6, .seed = 1});
  EXPECT_NEAR(Shares(one, logits)[2], 1.0, 1e-9);
  const auto two =
      Shares(Sampler({.temperature = 1, .top_p = 0.7, .seed = 1}), logits);
  EXPECT_EQ(two[0], 0);
  EXPECT_NEAR(two[1], 2.0 / 7, kTolerance);
  EXPECT_NEAR(two[2], 5.0 / 7, kTolerance);
}

TEST(Sampler, DrawsTheSameForTheSameSeedAndPlace) {
  const std::vector<float> logits(1000, 0.0f);
  const Sampler a({.temperature = 1, .seed = 7});
  const Sampler same({.temperature = 1, .seed = 7});
  const Sampler other({.temperature = 1, .seed = 8});
  int equal = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(a.Next(logits, i), same.Next(logits, i));
    if (a.Next(logits, i) == other.Next(logits, i)) ++equal;
  }
  EXPECT_LT(equal, 5);
}

}  // namespace
}  // namespace castor::cli
