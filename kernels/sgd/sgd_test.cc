#include "kernels/sgd/sgd.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/sgd/hypers_for_test.h"
#include "kernels/state_update/checks_for_test.h"

namespace castor::kernels {
namespace {

// The formulas of cpu.cc's head in plain C++.
void Oracle(const SgdHyper& h, float g, float& p, float& buf) {
  g = std::fma(static_cast<float>(h.weight_decay), p, g);
  const float momentum = static_cast<float>(h.momentum);
  float direction = g;
  if (h.momentum != 0) {
    const double add = h.step == 1 ? 1.0 : 1.0 - h.dampening;
    buf = std::fma(static_cast<float>(add), g, buf * momentum);
    direction = h.nesterov ? std::fma(momentum, buf, g) : buf;
  }
  p = std::fma(static_cast<float>(-h.lr), direction, p);
}

class SgdTest : public testing::TestWithParam<int> {
 protected:
  ThreadPool pool_{2};
  const ExecContext context_{&pool_};
};

INSTANTIATE_TEST_SUITE_P(Bits, SgdTest, testing::Values(0, 8, 16, 32));

TEST_P(SgdTest, EqualsTheOracleBitForBitOnEveryTarget) {
  ExpectTheOraclesBits<SgdArgs>(context_, GetParam(), SgdHypers(GetParam()),
                                Oracle);
}

TEST_P(SgdTest, DoesNotDependOnWhereAParameterIsCut) {
  ExpectNoCutOfAParameterToShow<SgdArgs>(context_, GetParam(),
                                         SgdHypers(GetParam()).back());
}

TEST_P(SgdTest, GivesTheSameAside) {
  ExpectTheSameAside<SgdArgs>(context_, GetParam(),
                              SgdHypers(GetParam()).back());
}

TEST_P(SgdTest, SaysWhatIsNotFinite) {
  ExpectToSayWhatIsNotFinite<SgdArgs>(context_, GetParam(),
                                      SgdHypers(GetParam()).back());
}

TEST_P(SgdTest, RefusesWhatItCannotTake) {
  ExpectToRefuseWhatItCannotTake<SgdArgs>(context_, GetParam(), SgdHyper());
}

// 10,000 steps of elements with a gradient of 1e-12, a seldom one, an ordinary
// one and none, beside each other in a tile: where roundings are drawn, each
// goes as far as in fp32, in the mean, and none that is not moved moves.
TEST_P(SgdTest, LosesNothingInManySteps) {
  if (GetParam() == 0) return;
  constexpr int64_t kSize = kStateTile;
  StatesForTest narrow(DType::kFloat32, 1, GetParam(), kSize, 0);
  StatesForTest wide(DType::kFloat32, 1, 32, kSize, 0);
  for (StatesForTest* states : {&narrow, &wide}) {
    for (int64_t i = 0; i < kSize; ++i) states->master.Set(i, 0);
    states->SetState(0, std::vector<float>(kSize));
  }
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0.1, 1);
  const float scale = 1;
  for (int step = 1; step <= 10'000; ++step) {
    for (int64_t i = 0; i < kSize; ++i) {
      const double draw = normal(random);
      const double g = i % 4 == 0   ? 1e-12
                       : i % 4 == 1 ? (step % 100 == 0 ? draw : 0)
                       : i % 4 == 2 ? draw
                                    : 0;
      narrow.payload.Set(i, g);
      wide.payload.Set(i, g);
    }
    const std::vector<SgdRange> ranges = {
        {.begin = 0,
         .end = kSize,
         .hyper = {.lr = 1e-4, .momentum = 0.9, .step = step},
         .key = {1, static_cast<uint64_t>(step)}}};
    for (StatesForTest* states : {&narrow, &wide}) {
      ASSERT_TRUE(
          kernels::Run(context_, ArgsForTest<SgdArgs>(
                                     states->Arrays(false, &scale), ranges))
              .ok());
    }
  }
  double moved[4] = {}, expected[4] = {};
  for (int64_t i = 0; i < kSize; ++i) {
    moved[i % 4] += narrow.master[i];
    expected[i % 4] += wide.master[i];
  }
  // Less than one step of a code.
  EXPECT_NEAR(moved[0], 0, 1e-6);
  EXPECT_NEAR(moved[1] / expected[1], 1, 0.05);
  EXPECT_NEAR(moved[2] / expected[2], 1, 0.05);
  EXPECT_EQ(moved[3], 0);
}

TEST(Sgd, RefusesMomentumWithoutStates) {
  ThreadPool pool(1);
  StatesForTest states(DType::kFloat32, 1, 0, 64, 0);
  const float scale = 1;
  const std::vector<SgdRange> ranges = {
      {.begin = 0, .end = 64, .hyper = {.momentum = 0.9}}};
  EXPECT_TRUE(absl::IsInvalidArgument(kernels::Run(
      {&pool}, ArgsForTest<SgdArgs>(states.Arrays(false, &scale), ranges))));
}

}  // namespace
}  // namespace castor::kernels
