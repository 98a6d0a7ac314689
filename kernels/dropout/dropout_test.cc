#include "kernels/dropout/dropout.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/philox.h"
#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

constexpr RandomKey kKey{0xdeadbeefcafef00du, 0x0123456789abcdefu};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(DropoutThreshold, IsTheProbabilityIn32Bits) {
  EXPECT_EQ(DropoutThreshold(0.0f), 0u);
  EXPECT_EQ(DropoutThreshold(0.5f), 0x80000000u);
  EXPECT_EQ(DropoutThreshold(0.75f), 0xc0000000u);
  EXPECT_EQ(DropoutThreshold(std::nextafter(1.0f, 0.0f)), 0xffffff00u);
}

TEST(Dropout, EqualsOracleBitForBit) {
  std::mt19937_64 random(4);
  for (float p : {0.0f, 0.1f, 0.5f, 0.97f}) {
    const uint32_t threshold = DropoutThreshold(p);
    const float scale = static_cast<float>(1.0 / (1.0 - double{p}));
    for (DType dtype : kAllTypes) {
      for (int64_t size : kTestSizes) {
        for (bool with_residual : {false, true}) {
          GuardedBuffer x(dtype, size, size % 3), residual(dtype, size, 1);
          x.FillNormal(random);
          residual.FillNormal(random);
          GuardedBuffer expected(dtype, size);
          for (int64_t i = 0; i < size; ++i) {
            float v = RandomWord(kKey, i) >= threshold
                          ? static_cast<float>(x[i]) * scale
                          : 0.0f;
            if (with_residual) v += static_cast<float>(residual[i]);
            expected.Set(i, v);
          }
          ForEachTarget([&](const char* target) {
            ThreadPool pool(2);
            GuardedBuffer y(dtype, size, size % 5);
            ASSERT_TRUE(
                kernels::Run(
                    ExecContext{&pool},
                    DropoutArgs{
                        .dtype = dtype,
                        .size = size,
                        .probability = p,
                        .key = kKey,
                        .x = x.data(),
                        .residual = with_residual ? residual.data() : nullptr,
                        .y = y.data()})
                    .ok());
            ASSERT_TRUE(y.GuardsIntact());
            ASSERT_TRUE(y.SameBits(expected))
                << target << " p " << p << " " << DTypeName(dtype) << " "
                << size << " residual " << with_residual;
          });
          ThreadPool pool(3);
          ASSERT_TRUE(kernels::Run(ExecContext{&pool},
                                   DropoutArgs{.dtype = dtype,
                                               .size = size,
                                               .probability = p,
                                               .key = kKey,
                                               .x = x.data(),
                                               .residual = with_residual
                                                               ? residual.data()
                                                               : nullptr,
                                               .y = x.data()})
                          .ok());
          ASSERT_TRUE(x.SameBits(expected)) << "in place";
        }
      }
    }
  }
}

TEST(Dropout, KeepsAboutTheRightShare) {
  const int64_t size = 1 << 20;
  std::vector<float> x(size, 1.0f), y(size);
  ThreadPool pool(2);
  ASSERT_TRUE(
      kernels::Run(ExecContext{&pool}, DropoutArgs{.dtype = DType::kFloat32,
                                                   .size = size,
                                                   .probability = 0.1f,
                                                   .key = kKey,
                                                   .x = x.data(),
                                                   .y = y.data()})
          .ok());
  double mean = 0;
  for (float v : y) mean += v / static_cast<double>(size);
  // Standard error of the mean: sqrt(p / (1 - p) / n) = 3.3e-4; five of them.
  EXPECT_NEAR(mean, 1.0, 1.7e-3);
}

TEST(Dropout, RefusesProbabilitiesOutsideItsRange) {
  ThreadPool pool(1);
  float x[1] = {1};
  for (float p : {-0.1f, 1.0f, static_cast<float>(kNan)}) {
    EXPECT_EQ(
        kernels::Run(ExecContext{&pool}, DropoutArgs{.dtype = DType::kFloat32,
                                                     .size = 1,
                                                     .probability = p,
                                                     .key = kKey,
                                                     .x = x,
                                                     .y = x})
            .code(),
        absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace castor::kernels
