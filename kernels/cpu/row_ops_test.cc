#include "kernels/cpu/row_ops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels::cpu {
namespace {

constexpr double kU = 0x1p-24;
constexpr int64_t kSizes[] = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 100, 385};

TEST(RowOps, FindsTheMaximumWhereverItIs) {
  for (int64_t size : kSizes) {
    for (int64_t at = 0; at < size; ++at) {
      GuardedBuffer x(DType::kFloat32, size, at % 3);
      for (int64_t i = 0; i < size; ++i) x.Set(i, i == at ? -1 : -2);
      ASSERT_EQ(MaxOf(x.floats(), size), -1) << at << " of " << size;
    }
  }
}

// exp is off by at most 2 u (1 ulp) and its argument by u |argument|; the sum
// of n terms by n u.
TEST(RowOps, SoftmaxAndItsParametersAgreeWithDouble) {
  std::mt19937_64 random(1);
  for (int64_t size : kSizes) {
    for (int64_t shift : {0, 1, 5}) {
      GuardedBuffer x(DType::kFloat32, size, shift);
      x.FillNormal(random, 3);
      const std::vector<double> before = x.Values();
      const double max = *std::max_element(before.begin(), before.end());
      double sum = 0;
      for (double v : before) sum += std::exp(v - max);
      const double bound = (static_cast<double>(size) + 30) * kU;
      EXPECT_NEAR(SumExp(x.floats(), size, static_cast<float>(max)), sum,
                  bound * sum);
      const double lse = max + std::log(sum);
      EXPECT_NEAR(Softmax(x.floats(), size), lse,
                  bound + 2 * kU * std::abs(lse));
      EXPECT_TRUE(x.GuardsIntact());
      for (int64_t i = 0; i < size; ++i) {
        const double p = std::exp(before[i] - lse);
        ASSERT_NEAR(x[i], p, bound * p);
      }
    }
  }
}

TEST(RowOps, ScalesExponentials) {
  std::mt19937_64 random(2);
  for (int64_t size : kSizes) {
    GuardedBuffer x(DType::kFloat32, size, 3);
    x.FillNormal(random, 3);
    const std::vector<double> before = x.Values();
    ExpScaled(x.floats(), size, 1.5f, 0.25f);
    EXPECT_TRUE(x.GuardsIntact());
    for (int64_t i = 0; i < size; ++i) {
      const double expected = 0.25 * std::exp(before[i] - 1.5);
      ASSERT_NEAR(x[i], expected, 30 * kU * expected);
    }
  }
}

TEST(RowOps, ExponentialsOfSmallNumbersAreZeroAndNaNsStay) {
  for (int64_t size : kSizes) {
    GuardedBuffer x(DType::kFloat32, size);
    for (int64_t i = 0; i < size; ++i) {
      x.Set(i, i + 1 == size ? std::nan("") : i % 2 ? -1e30 : -INFINITY);
    }
    EXPECT_TRUE(std::isnan(SumExp(x.floats(), size, 0)));
    EXPECT_EQ(SumExp(x.floats(), size - 1, 0), 0);
    ExpScaled(x.floats(), size, 0, 1);
    for (int64_t i = 0; i + 1 < size; ++i) EXPECT_EQ(x[i], 0);
    EXPECT_TRUE(std::isnan(x[size - 1]));
  }
}

TEST(RowOps, DotAndProductAgreeWithDouble) {
  std::mt19937_64 random(3);
  for (int64_t size : kSizes) {
    GuardedBuffer x(DType::kFloat32, size, 1);
    GuardedBuffer y(DType::kFloat32, size, 2);
    x.FillNormal(random);
    y.FillNormal(random);
    double sum = 0, magnitude = 0;
    for (int64_t i = 0; i < size; ++i) {
      sum += x[i] * y[i];
      magnitude += std::abs(x[i] * y[i]);
    }
    EXPECT_NEAR(Dot(x.floats(), y.floats(), size), sum,
                static_cast<double>(size) * kU * magnitude);
    const std::vector<double> before = x.Values();
    MultiplyInto(y.floats(), size, x.floats());
    EXPECT_TRUE(x.GuardsIntact());
    for (int64_t i = 0; i < size; ++i) {
      ASSERT_EQ(x[i], static_cast<float>(before[i] * y[i]));
    }
  }
}

// tanh is off by at most 8 u (4 ulp) and its argument by 2 u of itself, which
// tanh does not enlarge; the product with the cap is rounded once more. The
// slope 1 - t^2 is off by 2 |t| times t's error, and a rounding.
TEST(RowOps, SoftCapAndItsSlopeAgreeWithDouble) {
  std::mt19937_64 random(5);
  for (int64_t size : kSizes) {
    for (float cap : {0.5f, 50.0f}) {
      GuardedBuffer x(DType::kFloat32, size, 1), alone(DType::kFloat32, size);
      GuardedBuffer slopes(DType::kFloat32, size, 2);
      x.FillNormal(random, cap);
      x.Set(size / 2, 1000);
      alone.CopyFrom(x);
      const std::vector<double> before = x.Values();
      SoftCap(x.floats(), size, cap, slopes.floats());
      SoftCap(alone.floats(), size, cap, nullptr);
      EXPECT_TRUE(x.GuardsIntact() && slopes.GuardsIntact());
      for (int64_t i = 0; i < size; ++i) {
        const double t = std::tanh(before[i] / cap);
        ASSERT_NEAR(x[i], cap * t, 11 * kU * cap * std::abs(t));
        ASSERT_NEAR(slopes[i], 1 - t * t, 21 * kU * t * t + kU);
        ASSERT_EQ(x[i], alone[i]);
      }
    }
  }
  GuardedBuffer x(DType::kFloat32, 20), slopes(DType::kFloat32, 20);
  for (int64_t i = 0; i < 20; ++i) x.Set(i, i == 17 ? std::nan("") : 1);
  SoftCap(x.floats(), 20, 2, slopes.floats());
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(std::isnan(x[i]), i == 17);
    EXPECT_EQ(std::isnan(slopes[i]), i == 17);
  }
}

TEST(RowOps, AttentionGradientFollowsItsFormula) {
  std::mt19937_64 random(4);
  for (int64_t size : kSizes) {
    for (bool drop : {false, true}) {
      GuardedBuffer s(DType::kFloat32, size, 1);
      GuardedBuffer dp(DType::kFloat32, size, 2);
      GuardedBuffer factors(DType::kFloat32, size, 3);
      s.FillNormal(random);
      dp.FillNormal(random);
      for (int64_t i = 0; i < size; ++i) factors.Set(i, i % 3 ? 1.25 : 0);
      const std::vector<double> s0 = s.Values(), dp0 = dp.Values();
      AttentionGradient(s.floats(), dp.floats(), size, 2.0f, 0.5f, 0.125f,
                        drop ? factors.floats() : nullptr);
      EXPECT_TRUE(s.GuardsIntact() && dp.GuardsIntact());
      for (int64_t i = 0; i < size; ++i) {
        const double p = std::exp(s0[i] - 2);
        const double f = drop ? factors[i] : 1;
        ASSERT_NEAR(s[i], p * f, 20 * kU * p);
        ASSERT_NEAR(dp[i], p * (dp0[i] * f - 0.5) * 0.125,
                    20 * kU * p * (std::abs(dp0[i] * f) + 0.5) * 0.125);
      }
    }
  }
}

// Runs the loops as if this processor had no more than each of its instruction
// sets in turn. Each result is within (size + 30) u of the exact result, as
// above; exp itself differs in a last bit between AVX2 and AVX-512.
TEST(RowOps, AgreeOnEveryVectorLength) {
  const int64_t supported = hwy::SupportedTargets();
  std::vector<std::unique_ptr<GuardedBuffer>> owned;
  for (int64_t target : {HWY_AVX2, HWY_AVX3, HWY_AVX3_DL, HWY_NEON}) {
    if ((supported & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    std::mt19937_64 random(5);
    owned.push_back(std::make_unique<GuardedBuffer>(DType::kFloat32, 104));
    GuardedBuffer& x = *owned.back();
    x.FillNormal(random, 2);
    // The row is 101 long; the returned value lies behind it.
    const float max = MaxOf(x.floats(), 101);
    x.Set(101, SumExp(x.floats(), 101, max));
    x.Set(102, Dot(x.floats(), x.floats(), 101));
    x.Set(103, Softmax(x.floats(), 101));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
  for (const auto& result : owned) {
    EXPECT_TRUE(result->GuardsIntact());
    for (int64_t i = 0; i < result->size(); ++i) {
      const double expected = (*owned.front())[i];
      EXPECT_NEAR((*result)[i], expected, 2 * 131 * kU * std::abs(expected));
    }
  }
}

}  // namespace
}  // namespace castor::kernels::cpu
