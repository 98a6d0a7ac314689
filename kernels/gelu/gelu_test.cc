#include "kernels/gelu/gelu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double Gelu(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));
}
double GeluSlope(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  const double s = 1 / (1 + std::exp(-2 * u));
  const double slope = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  return s + x * s * (1 - s) * 2 * slope;
}

// Rounding of the exponent a = -2u (three operations and the constants', so
// 4 units) turns into a relative error |a| (1 - s) of s; Exp's own error is 1
// unit in the last place (2 units of roundoff), and sum, quotient and
// product round once each. 1e-37: where s leaves fp32's normal numbers.
double GeluTolerance(double x, double scale) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  const double s = 1 / (1 + std::exp(-2 * u));
  return scale * (4 * std::abs(2 * u) * (1 - s) + 8) * 0x1p-24 + 1e-35;
}

// The range in which GELU has a shape, its tails, and numbers beyond them.
void FillGeluInputs(GuardedBuffer& x, std::mt19937_64& random) {
  x.FillNormal(random, 2.5);
  const double odd[] = {0.0,   -0.0, 5.0,   -5.0, -9.0,  -12.0, 40.0,
                        -40.0, 1e20, -1e20, 3e38, -3e38, 1e-40, kInfinity};
  for (int64_t i = 0; i < 14 && 2 * i + 1 < x.size(); ++i) {
    // Minus infinity is not among them, and would be in fp16.
    x.Set(2 * i + 1, x.dtype() == DType::kFloat16
                         ? std::max(odd[i], -kLargestFloat16)
                         : odd[i]);
  }
}

TEST(GeluForward, EqualsDoubleOracle) {
  std::mt19937_64 random(1);
  ThreadPool pool(2);
  ForEachTarget([&](const char* target) {
    for (DType dtype : kAllTypes) {
      for (int64_t size : kTestSizes) {
        GuardedBuffer x(dtype, size, size % 3), y(dtype, size, size % 5);
        FillGeluInputs(x, random);
        ASSERT_TRUE(
            kernels::Run(
                ExecContext{&pool},
                GeluForwardArgs{
                    .dtype = dtype, .size = size, .x = x.data(), .y = y.data()})
                .ok());
        ASSERT_TRUE(y.GuardsIntact());
        for (int64_t i = 0; i < size; ++i) {
          const double expected = Gelu(x[i]);
          if (std::isinf(expected)) {
            ASSERT_EQ(y[i], expected);
            continue;
          }
          const double rounding =
              dtype == DType::kFloat32 ? 0 : RoundingError(dtype, expected);
          ASSERT_NEAR(y[i], expected,
                      GeluTolerance(x[i], std::abs(expected)) + rounding)
              << target << " " << DTypeName(dtype) << " x " << x[i];
        }
      }
    }
  });
}

TEST(GeluForward, GivesTheTanhFormulasValues) {
  // From 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), in 6 digits.
  const float x[] = {-3.0f, -1.0f, 0.0f, 0.5f, 1.0f, 2.0f};
  const double expected[] = {-0.003637, -0.158808, 0,
                             0.345714,  0.841192,  1.954598};
  float y[6];
  ThreadPool pool(1);
  ASSERT_TRUE(
      kernels::Run(
          ExecContext{&pool},
          GeluForwardArgs{.dtype = DType::kFloat32, .size = 6, .x = x, .y = y})
          .ok());
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(y[i], expected[i], 5e-7);
}

TEST(GeluBackward, EqualsDoubleOracle) {
  std::mt19937_64 random(2);
  ThreadPool pool(2);
  ForEachTarget([&](const char* target) {
    for (DType dtype : kAllTypes) {
      for (int64_t size : kTestSizes) {
        GuardedBuffer x(dtype, size, size % 3), dy(dtype, size, 1);
        GuardedBuffer dx(dtype, size, size % 5);
        FillGeluInputs(x, random);
        dy.FillNormal(random);
        ASSERT_TRUE(
            kernels::Run(ExecContext{&pool}, GeluBackwardArgs{.dtype = dtype,
                                                              .size = size,
                                                              .x = x.data(),
                                                              .dy = dy.data(),
                                                              .dx = dx.data()})
                .ok());
        ASSERT_TRUE(dx.GuardsIntact());
        for (int64_t i = 0; i < size; ++i) {
          // Beyond 16 the derivative is 0 or 1 to within 1e-37.
          const double c = std::max(-16.0, std::min(16.0, x[i]));
          const double expected = dy[i] * GeluSlope(c);
          // Both terms of the derivative carry the error of s.
          const double size_of_terms = std::abs(dy[i]) * (1 + std::abs(c)) *
                                       (1 / (1 + std::exp(-1.6 * c)) + 1e-9);
          const double rounding =
              dtype == DType::kFloat32 ? 0 : RoundingError(dtype, expected);
          ASSERT_NEAR(dx[i], expected,
                      4 * GeluTolerance(c, size_of_terms) + rounding)
              << target << " " << DTypeName(dtype) << " x " << x[i];
        }
        // dx may take dy's place.
        ASSERT_TRUE(
            kernels::Run(ExecContext{&pool}, GeluBackwardArgs{.dtype = dtype,
                                                              .size = size,
                                                              .x = x.data(),
                                                              .dy = dy.data(),
                                                              .dx = dy.data()})
                .ok());
        EXPECT_TRUE(dy.SameBits(dx));
      }
    }
  });
}

TEST(GeluBackward, OracleIsTheDerivativeOfForward) {
  // Central differences with h = 1e-5: h^2 / 6 |gelu'''| and roundoff 1e-16 / h
  // are both below 1e-9.
  for (double x = -6; x <= 6; x += 0.0625) {
    const double h = 1e-5;
    EXPECT_NEAR(GeluSlope(x), (Gelu(x + h) - Gelu(x - h)) / (2 * h), 1e-9);
  }
}

TEST(Gelu, PropagatesNan) {
  ThreadPool pool(1);
  const float x[] = {1.0f, static_cast<float>(kNan), 2.0f};
  const float ones[] = {1.0f, 1.0f, 1.0f};
  float y[3];
  ForEachTarget([&](const char*) {
    ASSERT_TRUE(
        kernels::Run(ExecContext{&pool},
                     GeluForwardArgs{
                         .dtype = DType::kFloat32, .size = 3, .x = x, .y = y})
            .ok());
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_FALSE(std::isnan(y[2]));
    ASSERT_TRUE(kernels::Run(ExecContext{&pool},
                             GeluBackwardArgs{.dtype = DType::kFloat32,
                                              .size = 3,
                                              .x = x,
                                              .dy = ones,
                                              .dx = y})
                    .ok());
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_FALSE(std::isnan(y[0]));
  });
}

}  // namespace
}  // namespace castor::kernels
