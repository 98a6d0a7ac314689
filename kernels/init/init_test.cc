
#include "kernels/init/init.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

constexpr RandomKey kKey{0x123456789abcdef0u, 0xfedcba9876543210u};

float NormalOracle(RandomKey key, uint64_t i, float mean, float stddev) {
  const double u = (RandomWord(key, 2 * i) + 1.0) / 4294967296.0;
  const double angle = 2.0 * M_PI * (RandomWord(key, 2 * i + 1) / 4294967296.0);
  const double z = std::sqrt(-2.0 * std::log(u)) * std::cos(angle);
  return static_cast<float>(static_cast<double>(mean) +
                            static_cast<double>(stddev) * z);
}

TEST(FillNormal, EqualsOracleForAnySliceAndPool) {
  ForEachPool([&](const ExecContext& context) {
    for (int64_t begin :
         {int64_t{0}, int64_t{1}, int64_t{5}, (int64_t{1} << 33) + 3}) {
      for (int64_t size : {0, 1, 2, 3, 17, 1023, 1024, 1025, 5000}) {
        GuardedBuffer x(DType::kFloat32, size, size % 3);
        ASSERT_TRUE(FillNormal(context, kKey, begin, begin + size, 0.5f, 0.02f,
                               x.floats())
                        .ok());
        ASSERT_TRUE(x.GuardsIntact());
        for (int64_t i = 0; i < size; ++i) {
          ASSERT_EQ(x.floats()[i], NormalOracle(kKey, begin + i, 0.5f, 0.02f))
              << begin << " + " << i;
        }
      }
    }
  });
}

TEST(FillNormal, HasTheMomentsOfANormalDistribution) {
  const int64_t size = 1 << 18;
  std::vector<float> x(size);
  ThreadPool pool(2);
  ASSERT_TRUE(
      FillNormal(ExecContext{&pool}, kKey, 0, size, 0, 1, x.data()).ok());
  double moment[5] = {};
  for (float v : x) {
    for (int k = 1; k <= 4; ++k) moment[k] += std::pow(v, k) / size;
  }
  // Standard errors: sqrt of the variance of v^k (1, 2, 15, 96) over n; the
  // stream is fixed, five of them are ample.
  const double root = 5 / std::sqrt(static_cast<double>(size));
  EXPECT_NEAR(moment[1], 0, root * 1);
  EXPECT_NEAR(moment[2], 1, root * std::sqrt(2.0));
  EXPECT_NEAR(moment[3], 0, root * std::sqrt(15.0));
  EXPECT_NEAR(moment[4], 3, root * std::sqrt(96.0));
}

TEST(FillNormal, RefusesABackwardRange) {
  ThreadPool pool(1);
  EXPECT_EQ(FillNormal(ExecContext{&pool}, kKey, 5, 4, 0, 1, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(FillConstant, SetsEveryElementAndNoMore) {
  ForEachPool([&](const ExecContext& context) {
    for (int64_t size : kTestSizes) {
      GuardedBuffer x(DType::kFloat32, size, 1);
      ASSERT_TRUE(FillConstant(context, size, -1.5f, x.floats()).ok());
      ASSERT_TRUE(x.GuardsIntact());
      for (int64_t i = 0; i < size; ++i) ASSERT_EQ(x[i], -1.5);
    }
  });
}

}  // namespace
}  // namespace castor::kernels
