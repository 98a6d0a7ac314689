#include "kernels/elementwise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/guarded_buffer.h"
#include "kernels/kernel_test_util.h"

namespace castor::kernels {
namespace {

constexpr RandomKey kKey{0xdeadbeefcafef00du, 0x0123456789abcdefu};
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
            GeluForward(ExecContext{&pool}, dtype, size, x.data(), y.data())
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
  ASSERT_TRUE(GeluForward(ExecContext{&pool}, DType::kFloat32, 6, x, y).ok());
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
        ASSERT_TRUE(GeluBackward(ExecContext{&pool}, dtype, size, x.data(),
                                 dy.data(), dx.data())
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
        // In place.
        ASSERT_TRUE(GeluBackward(ExecContext{&pool}, dtype, size, x.data(),
                                 dy.data(), dy.data())
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
    ASSERT_TRUE(GeluForward(ExecContext{&pool}, DType::kFloat32, 3, x, y).ok());
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_FALSE(std::isnan(y[2]));
    ASSERT_TRUE(
        GeluBackward(ExecContext{&pool}, DType::kFloat32, 3, x, ones, y).ok());
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_FALSE(std::isnan(y[0]));
  });
}

TEST(Add, RoundsTheSumOnce) {
  std::mt19937_64 random(3);
  ForEachTarget([&](const char* target) {
    ForEachPool([&](const ExecContext& context) {
      for (DType dtype : kAllTypes) {
        for (int64_t size : kTestSizes) {
          GuardedBuffer a(dtype, size, 1), b(dtype, size, 2), y(dtype, size);
          a.FillNormal(random);
          b.FillNormal(random, 100);
          ASSERT_TRUE(
              Add(context, dtype, size, a.data(), b.data(), y.data()).ok());
          ASSERT_TRUE(y.GuardsIntact());
          GuardedBuffer expected(dtype, size);
          for (int64_t i = 0; i < size; ++i) {
            expected.Set(i,
                         static_cast<float>(a[i]) + static_cast<float>(b[i]));
          }
          ASSERT_TRUE(y.SameBits(expected)) << target << " " << size;
          ASSERT_TRUE(
              Add(context, dtype, size, a.data(), b.data(), b.data()).ok());
          ASSERT_TRUE(b.SameBits(expected)) << "in place";
        }
      }
    });
  });
}

TEST(RandomWords, EqualRandomWordFromAnyElement) {
  ForEachTarget([&](const char* target) {
    for (uint64_t begin :
         {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{4},
          uint64_t{1000003}, (uint64_t{1} << 34) - 70,  // counter's carry
          (uint64_t{1} << 63) + 5}) {
      for (int64_t size : {0, 1, 2, 3, 4, 5, 31, 63, 64, 65, 127, 1000}) {
        std::vector<uint32_t> words(size + 1, 0x5a5a5a5au);
        cpu::RandomWords(kKey, begin, size, words.data());
        for (int64_t i = 0; i < size; ++i) {
          ASSERT_EQ(words[i], RandomWord(kKey, begin + i))
              << target << " " << begin << " + " << i;
        }
        ASSERT_EQ(words[size], 0x5a5a5a5au);
      }
    }
  });
}

TEST(DropoutMask, FollowsRandomWord) {
  const uint32_t threshold = DropoutThreshold(0.3f);
  ForEachTarget([&](const char* target) {
    for (uint64_t begin : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 40}) {
      for (int64_t size : {0, 1, 5, 1023, 1024, 1025, 5000}) {
        std::vector<float> mask(size + 1, -1.0f);
        cpu::DropoutMask(kKey, begin, size, threshold, 1.25f, mask.data());
        for (int64_t i = 0; i < size; ++i) {
          const bool keep = RandomWord(kKey, begin + i) >= threshold;
          ASSERT_EQ(mask[i], keep ? 1.25f : 0.0f) << target << " " << i;
        }
        ASSERT_EQ(mask[size], -1.0f);
      }
    }
  });
}

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
                Dropout(ExecContext{&pool}, dtype, size, p, kKey, x.data(),
                        with_residual ? residual.data() : nullptr, y.data())
                    .ok());
            ASSERT_TRUE(y.GuardsIntact());
            ASSERT_TRUE(y.SameBits(expected))
                << target << " p " << p << " " << DTypeName(dtype) << " "
                << size << " residual " << with_residual;
          });
          ThreadPool pool(3);
          ASSERT_TRUE(
              Dropout(ExecContext{&pool}, dtype, size, p, kKey, x.data(),
                      with_residual ? residual.data() : nullptr, x.data())
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
  ASSERT_TRUE(Dropout(ExecContext{&pool}, DType::kFloat32, size, 0.1f, kKey,
                      x.data(), nullptr, y.data())
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
        Dropout(ExecContext{&pool}, DType::kFloat32, 1, p, kKey, x, nullptr, x)
            .code(),
        absl::StatusCode::kInvalidArgument);
  }
}

TEST(BiasGradient, SumsRowsOnEveryTargetAlike) {
  std::mt19937_64 random(5);
  for (DType dtype : kAllTypes) {
    for (int64_t rows : {0, 1, 31, 33, 700}) {
      for (int64_t channels : {1, 15, 64, 65, 200}) {
        for (bool accumulate : {false, true}) {
          GuardedBuffer dy(dtype, rows * channels, rows % 3);
          GuardedBuffer before(dtype, channels);
          dy.FillNormal(random);
          before.FillNormal(random);
          GuardedBuffer first(dtype, channels);
          bool have_first = false;
          ForEachTarget([&](const char* target) {
            ForEachPool([&](const ExecContext& context) {
              GuardedBuffer db(dtype, channels, 1);
              if (accumulate) db.CopyFrom(before);
              ASSERT_TRUE(BiasGradient(context, dtype, rows, channels,
                                       dy.data(), db.data(), accumulate)
                              .ok());
              ASSERT_TRUE(db.GuardsIntact());
              if (!have_first) {
                first.CopyFrom(db);
                have_first = true;
              }
              ASSERT_TRUE(db.SameBits(first)) << target;
            });
          });
          for (int64_t c = 0; c < channels; ++c) {
            double sum = accumulate ? before[c] : 0, size = std::abs(sum);
            for (int64_t n = 0; n < rows; ++n) {
              sum += dy[n * channels + c];
              size += std::abs(dy[n * channels + c]);
            }
            // At most 32 roundings within a tile, one per tile, one at the end.
            const double roundings = 33 + static_cast<double>(rows) / 32;
            ASSERT_NEAR(first[c], sum,
                        size * roundings * 0x1p-24 + RoundingError(dtype, sum));
          }
        }
      }
    }
  }
}

// convert_test.cc looks at every tie of a conversion.
TEST(Cast, RoundsToTheTypeFromEveryOther) {
  const int64_t size = 70'003;
  std::mt19937_64 random(7);
  GuardedBuffer bits(DType::kFloat32, size);
  for (int64_t i = 0; i < size; ++i) {
    const float any = std::bit_cast<float>(static_cast<uint32_t>(random()));
    // Half of them in fp16's range and around its least numbers.
    bits.Set(i, i % 2 == 0 ? any : std::remainder(any, 1.0f));
  }
  for (DType from : kAllTypes) {
    for (DType to : kAllTypes) {
      GuardedBuffer x(from, size, 1), expected(to, size);
      x.CopyFrom(bits);
      expected.CopyFrom(x);
      ForEachTarget([&](const char* target) {
        ForEachPool([&](const ExecContext& context) {
          GuardedBuffer y(to, size, 3);
          ASSERT_TRUE(Cast(context, size, from, x.data(), to, y.data()).ok());
          ASSERT_TRUE(y.GuardsIntact());
          ASSERT_TRUE(y.SameBits(expected))
              << target << " " << DTypeName(from) << " " << DTypeName(to);
        });
      });
    }
  }
}

TEST(Cast, CopiesWhereTypesAreEqual) {
  std::mt19937_64 random(6);
  ThreadPool pool(2);
  for (DType dtype : kAllTypes) {
    for (int64_t size : kTestSizes) {
      GuardedBuffer x(dtype, size, 1), y(dtype, size, 2);
      x.FillNormal(random);
      ASSERT_TRUE(
          Cast(ExecContext{&pool}, size, dtype, x.data(), dtype, y.data())
              .ok());
      EXPECT_TRUE(y.SameBits(x));
      EXPECT_TRUE(y.GuardsIntact());
      ASSERT_TRUE(
          Cast(ExecContext{&pool}, size, dtype, x.data(), dtype, x.data())
              .ok());
      EXPECT_TRUE(y.SameBits(x));
    }
  }
}

}  // namespace
}  // namespace castor::kernels
