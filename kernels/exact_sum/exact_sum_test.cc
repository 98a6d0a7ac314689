
#include "kernels/exact_sum/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A natural number of any size, one bit per entry, least first, in units of
// 2^-1074: slow, and plainly right.
class BitString {
 public:
  void Add(double value) {
    if (value == 0) return;
    int exponent;
    const double fraction = std::frexp(value, &exponent);  // [0.5, 1)
    uint64_t mantissa = static_cast<uint64_t>(std::ldexp(fraction, 53));
    int position = exponent - 53 + 1074;
    for (; position < 0; ++position) mantissa >>= 1;  // exact: subnormal
    for (; mantissa != 0; mantissa >>= 1, ++position) {
      if (mantissa & 1) AddBit(position);
    }
  }
  // Rounds to nearest, ties to even, which it decides by comparing with the two
  // neighbours' midpoint bit by bit.
  double Value() const {
    int top = static_cast<int>(bits_.size()) - 1;
    while (top >= 0 && !bits_[top]) --top;
    if (top < 0) return 0;
    const int low = std::max(0, top - 52);
    uint64_t mantissa = 0;
    for (int i = top; i >= low; --i) mantissa = 2 * mantissa + bits_[i];
    bool half = low > 0 && bits_[low - 1];
    bool rest = false;
    for (int i = 0; i < low - 1; ++i) rest = rest || bits_[i];
    if (half && (rest || mantissa % 2 == 1)) ++mantissa;
    return std::ldexp(static_cast<double>(mantissa), low - 1074);
  }

 private:
  void AddBit(int position) {
    if (static_cast<int>(bits_.size()) < 2400) bits_.resize(2400, false);
    while (bits_[position]) bits_[position++] = false;
    bits_[position] = true;
  }
  std::vector<bool> bits_;
};

// Non-negative finite doubles of all magnitudes, subnormals among them.
double AnyDouble(std::mt19937_64& random, int least, int most) {
  const uint64_t exponent =
      least + random() % static_cast<uint64_t>(most - least);
  return std::bit_cast<double>((exponent << 52) | (random() >> 12));
}

// Every limb full of ones, doubled far beyond what one has room for.
TEST(ExactSum, AddsMoreSumsThanALimbHasRoomForCarries) {
  ExactSum sum;
  for (int exponent = 1; exponent < 1900; exponent += 53) {
    sum.Add(std::bit_cast<double>((uint64_t(exponent) << 52) |
                                  ((uint64_t{1} << 52) - 1)));
  }
  const double once = sum.Value();
  constexpr int kDoublings = 80;
  for (int i = 0; i < kDoublings; ++i) {
    const ExactSum same = sum;
    sum.Add(same);
  }
  EXPECT_EQ(sum.Value(), std::ldexp(once, kDoublings));
}

TEST(AddSquares, RefusesMoreTilesThanASumHasRoomFor) {
  ThreadPool pool(1);
  ExactSum sum;
  const absl::Status refused = kernels::Run(
      {&pool},
      AddSquaresArgs{.size = ExactSum::kMaxAddends * kNormTile, .sum = &sum});
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
}

TEST(ExactSum, RoundsOneAddendToItself) {
  std::mt19937_64 random(1);
  std::vector<double> values = {0.0,
                                -0.0,
                                std::numeric_limits<double>::denorm_min(),
                                std::numeric_limits<double>::min(),
                                std::numeric_limits<double>::max(),
                                1.0,
                                std::nextafter(1.0, 2.0)};
  for (int i = 0; i < 5000; ++i) values.push_back(AnyDouble(random, 0, 2047));
  for (double value : values) {
    ExactSum sum;
    sum.Add(value);
    EXPECT_EQ(sum.Value(), value);
    EXPECT_EQ(sum.invalid, 0);
  }
}

TEST(ExactSum, EqualsBigIntegerOracle) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 600; ++round) {
    // Narrow and wide ranges of exponents, at the ends too.
    const int width = 1 + static_cast<int>(random() % 120);
    const int least =
        round % 5 == 0 ? 0 : static_cast<int>(random() % (2040 - width));
    ExactSum sum;
    BitString oracle;
    const int count = 1 + static_cast<int>(random() % 60);
    for (int i = 0; i < count; ++i) {
      const double value = AnyDouble(random, least, least + width);
      sum.Add(value);
      oracle.Add(value);
    }
    ASSERT_EQ(sum.Value(), oracle.Value()) << "seed 2 round " << round;
  }
}

TEST(ExactSum, RoundsTiesToEven) {
  const double half = 0x1p-53;  // half a unit in the last place of 1
  ExactSum even;
  even.Add(1.0);
  even.Add(half);
  EXPECT_EQ(even.Value(), 1.0);
  even.Add(std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(even.Value(), 1.0 + 0x1p-52);
  ExactSum odd;
  odd.Add(1.0 + 0x1p-52);
  odd.Add(half);
  EXPECT_EQ(odd.Value(), 1.0 + 0x1p-51);
}

TEST(ExactSum, OverflowsToInfinityOnlyWhenItMust) {
  const double max = std::numeric_limits<double>::max();
  ExactSum sum;
  sum.Add(max);
  sum.Add(0x1p969);  // less than half a unit in the last place, 2^970
  EXPECT_EQ(sum.Value(), max);
  sum.Add(0x1p969);  // the tie goes to even, beyond the largest
  EXPECT_EQ(sum.Value(), kInfinity);
}

TEST(ExactSum, CarriesThroughFullLimbs) {
  ExactSum many;
  for (int i = 0; i < 100000; ++i) many.Add(1.0 - 0x1p-53);
  // 100000 - 100000 2^-53: the nearest double to it.
  EXPECT_EQ(many.Value(),
            100000.0 - 0x1p-36 * std::round(0x1p36 * 100000 * 0x1p-53));
  ExactSum full;  // what 2^31 addends may leave in a limb
  full.limbs.fill(std::numeric_limits<int64_t>::max() - (int64_t{1} << 31));
  full.limbs[65] = full.limbs[66] = full.limbs[67] = 0;
  EXPECT_EQ(full.Value(), kInfinity);
  ExactSum low;
  low.limbs[0] = low.limbs[1] = int64_t{0xffffffff} << 31;
  // (2^32 - 1) 2^31 (1 + 2^32) = 2^95 - 2^31 units, which rounds to 2^95.
  EXPECT_EQ(low.Value(), std::ldexp(1.0, 95 - 1074));
}

TEST(ExactSum, DoesNotDependOnOrderOrPartition) {
  std::mt19937_64 random(3);
  std::vector<double> values;
  for (int i = 0; i < 3000; ++i) values.push_back(AnyDouble(random, 0, 2030));
  ExactSum whole;
  for (double value : values) whole.Add(value);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    std::vector<ExactSum> parts(1 + random() % 9);
    for (double value : values) parts[random() % parts.size()].Add(value);
    std::shuffle(parts.begin(), parts.end(), random);
    ExactSum sum;
    for (const ExactSum& part : parts) sum.Add(part);
    EXPECT_EQ(std::bit_cast<uint64_t>(sum.Value()),
              std::bit_cast<uint64_t>(whole.Value()))
        << "seed 3 round " << round;
  }
}

TEST(ExactSum, IsNanAfterAnInvalidAddend) {
  for (double bad : {kInfinity, -kInfinity, -1.0,
                     std::numeric_limits<double>::quiet_NaN()}) {
    ExactSum sum;
    sum.Add(1.0);
    sum.Add(bad);
    EXPECT_EQ(sum.invalid, 1);
    EXPECT_TRUE(std::isnan(sum.Value()));
    ExactSum other;
    other.Add(sum);
    EXPECT_TRUE(std::isnan(other.Value()));
  }
}

TEST(ExactSum, KeepsTheGreatestLabel) {
  ExactSum sum, low, high;
  low.invalid_label = 3;
  high.invalid_label = 8;
  sum.Add(low);
  EXPECT_EQ(sum.invalid_label, 3);
  sum.Add(high);
  sum.Add(low);
  EXPECT_EQ(sum.invalid_label, 8);
  // Ranks reduce it as a row of integers.
  EXPECT_EQ(sizeof(ExactSum), (ExactSum::kLimbs + 2) * sizeof(int64_t));
}

// The order of additions that cpu.cc promises, in plain C++.
double TileOracle(const GuardedBuffer& x, int64_t begin) {
  double s[8] = {};
  for (int64_t i = 0; i < kNormTile && begin + i < x.size(); ++i) {
    s[i % 8] += x[begin + i] * x[begin + i];
  }
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

TEST(AddSquares, EqualsTileOracleOnEveryTargetAndPool) {
  std::mt19937_64 random(4);
  for (DType dtype : kAllTypes) {
    for (int64_t size : kTestSizes) {
      GuardedBuffer x(dtype, size, size % 5);
      x.FillNormal(random, 1e-3);
      ExactSum added, expected;
      added.Add(0.125);
      for (int64_t i = 0; i < size; i += kNormTile) {
        added.Add(TileOracle(x, i));
      }
      expected.Add(added);  // its carries settled
      ForEachTarget([&](const char* target) {
        ForEachPool([&](const ExecContext& context) {
          ExactSum sum;
          sum.Add(0.125);
          ASSERT_TRUE(kernels::Run(context, AddSquaresArgs{.size = size,
                                                           .dtype = dtype,
                                                           .x = x.data(),
                                                           .sum = &sum})
                          .ok());
          EXPECT_EQ(sum.limbs, expected.limbs)
              << target << " " << DTypeName(dtype) << " " << size;
          EXPECT_EQ(sum.invalid, 0);
          EXPECT_EQ(sum.invalid_label, 0);
        });
      });
    }
  }
}

TEST(AddSquares, DoesNotDependOnSlicesAtTileBoundaries) {
  std::mt19937_64 random(5);
  const int64_t size = 50000;
  GuardedBuffer x(DType::kFloat32, size);
  x.FillNormal(random);
  ThreadPool pool(2);
  const ExecContext context{&pool};
  ExactSum whole;
  ASSERT_TRUE(kernels::Run(context, AddSquaresArgs{.size = size,
                                                   .dtype = DType::kFloat32,
                                                   .x = x.data(),
                                                   .sum = &whole})
                  .ok());
  ExactSum sliced;
  for (int64_t begin = 0; begin < size;) {
    const int64_t end = std::min<int64_t>(
        size, begin + kNormTile * static_cast<int64_t>(1 + random() % 40));
    ASSERT_TRUE(kernels::Run(context, AddSquaresArgs{.size = end - begin,
                                                     .dtype = DType::kFloat32,
                                                     .x = x.floats() + begin,
                                                     .sum = &sliced})
                    .ok());
    begin = end;
  }
  EXPECT_EQ(sliced.limbs, whole.limbs);
  // Against the plain sum: n roundings of 2^-53 each at most.
  double plain = 0;
  for (int64_t i = 0; i < size; ++i) plain += x[i] * x[i];
  EXPECT_NEAR(whole.Value(), plain,
              plain * static_cast<double>(size) * 0x1p-53);
}

TEST(AddSquares, MarksNanAndInfinity) {
  ThreadPool pool(1);
  for (DType dtype : kAllTypes) {
    GuardedBuffer x(dtype, 200);
    for (int64_t i = 0; i < 200; ++i) x.Set(i, 1);
    x.Set(70, std::numeric_limits<double>::quiet_NaN());
    x.Set(199, -kInfinity);
    ExactSum sum;
    ASSERT_TRUE(kernels::Run(ExecContext{&pool}, AddSquaresArgs{.size = 200,
                                                                .dtype = dtype,
                                                                .x = x.data(),
                                                                .sum = &sum})
                    .ok());
    EXPECT_EQ(sum.invalid, 2);  // two tiles
    EXPECT_TRUE(std::isnan(sum.Value()));
  }
}

TEST(AddSquares, NamesTheGreatestLabelOfInvalidAddends) {
  // More than a task has, so that one of several meets the NaN.
  const int64_t size = 100003;
  GuardedBuffer good(DType::kFloat16, size), bad(DType::kFloat16, size);
  for (int64_t i = 0; i < size; ++i) good.Set(i, 0.5);
  bad.CopyFrom(good);
  bad.Set(50000, kInfinity);
  ForEachPool([&](const ExecContext& context) {
    ExactSum sum;
    const auto add = [&](const GuardedBuffer& x, int64_t label) {
      ASSERT_TRUE(kernels::Run(context, AddSquaresArgs{.size = size,
                                                       .dtype = x.dtype(),
                                                       .x = x.data(),
                                                       .sum = &sum,
                                                       .label = label})
                      .ok());
    };
    add(good, 9);
    EXPECT_EQ(sum.invalid_label, 0);
    add(bad, 5);
    EXPECT_EQ(sum.invalid_label, 5);
    add(bad, 2);
    add(good, 7);
    EXPECT_EQ(sum.invalid_label, 5);
    EXPECT_EQ(sum.invalid, 2);
    add(bad, 6);
    EXPECT_EQ(sum.invalid_label, 6);
  });
}

}  // namespace
}  // namespace castor::kernels
