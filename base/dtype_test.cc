#include "base/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/with_type.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A 16-bit type by its definition: a number is k 2^(e - bits) with integers
// |k| < 2^(bits + 1) and e from `least_exponent` to `largest_exponent`.
template <class T>
struct Format;
template <>
struct Format<BFloat16> {
  static constexpr int kBits = 7, kLeast = -126, kLargest = 127;
};
template <>
struct Format<Float16> {
  static constexpr int kBits = 10, kLeast = -14, kLargest = 15;
};

// The nearest number of T, ties to even, in double: slow, and plainly right.
template <class T>
double Nearest(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), Format<T>::kLeast);
  const double unit = std::ldexp(1.0, exponent - Format<T>::kBits);
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::abs(rounded) < std::ldexp(1.0, Format<T>::kLargest + 1)
             ? rounded
             : std::copysign(double{kInfinity}, value);
}

// The number that 16 bits stand for.
template <class T>
double ValueOf(uint16_t bits) {
  const int fraction = bits & ((1 << Format<T>::kBits) - 1);
  const int exponent = (bits & 0x7fff) >> Format<T>::kBits;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == Format<T>::kLargest - Format<T>::kLeast + 2) {
    return fraction == 0 ? sign * kInfinity
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) {
    return sign * std::ldexp(fraction, Format<T>::kLeast - Format<T>::kBits);
  }
  return sign * std::ldexp(fraction + (1 << Format<T>::kBits),
                           Format<T>::kLeast + exponent - 1 - Format<T>::kBits);
}

template <class T>
T FromBits(uint32_t bits) {
  T value;
  value.bits = static_cast<uint16_t>(bits);
  return value;
}

// Around every boundary between two neighbours, beyond the largest number,
// and any bits at all.
template <class T>
std::vector<float> FloatsToRound() {
  std::vector<float> x = {0, kInfinity, std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::denorm_min()};
  for (uint32_t bits = 0; bits < 0x8000; ++bits) {
    const double here = ValueOf<T>(static_cast<uint16_t>(bits));
    double next = ValueOf<T>(static_cast<uint16_t>(bits + 1));
    if (!std::isfinite(here)) break;
    if (!std::isfinite(next)) next = std::ldexp(1.0, Format<T>::kLargest + 1);
    const float middle = static_cast<float>(here / 2 + next / 2);
    for (float f : {static_cast<float>(here), middle}) {
      for (float to : {-kInfinity, f, kInfinity}) {
        x.push_back(std::nextafter(f, to));
      }
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  const size_t size = x.size();
  for (size_t i = 0; i < size; ++i) x.push_back(-x[i]);
  return x;
}

template <class T>
class SixteenBits : public testing::Test {};
using Types = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(SixteenBits, Types);

TYPED_TEST(SixteenBits, AreWidenedExactlyAndComeBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = static_cast<float>(FromBits<TypeParam>(bits));
    const double value = ValueOf<TypeParam>(static_cast<uint16_t>(bits));
    const TypeParam back(wide);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(back))) << bits;
      continue;
    }
    ASSERT_EQ(wide, value) << bits;
    ASSERT_EQ(std::signbit(wide), std::signbit(value)) << bits;
    ASSERT_EQ(back.bits, bits);
  }
}

TYPED_TEST(SixteenBits, AreTheNearestWithTiesToEven) {
  for (float f : FloatsToRound<TypeParam>()) {
    const float rounded = static_cast<float>(TypeParam(f));
    if (std::isnan(f)) {
      ASSERT_TRUE(std::isnan(rounded));
      continue;
    }
    ASSERT_EQ(rounded, Nearest<TypeParam>(f)) << f;
    ASSERT_EQ(std::signbit(rounded), std::signbit(f)) << f;
  }
}

// Not every compiler has the type.
#ifdef __FLT16_MANT_DIG__
TEST(Float16, IsTheCompilersType) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half = FromBits<Float16>(bits);
    const float expected = static_cast<float>(std::bit_cast<_Float16>(half));
    const float widened = static_cast<float>(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widened)) << bits;
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(widened),
              std::bit_cast<uint32_t>(expected))
        << bits;
  }
  for (float f : FloatsToRound<Float16>()) {
    if (std::isnan(f)) continue;
    ASSERT_EQ(Float16(f).bits,
              std::bit_cast<uint16_t>(static_cast<_Float16>(f)))
        << f;
  }
}
#endif

TEST(WithType, CallsWithTheTypeThatIsNamed) {
  for (DType dtype : kAllTypes) {
    WithType(dtype, [&]<class T>(T) {
      EXPECT_EQ(kDTypeOf<T>, dtype);
      EXPECT_EQ(SizeOf(dtype), static_cast<int64_t>(sizeof(T)));
    });
  }
  EXPECT_EQ(WithType(DType::kFloat16, []<class T>(T) { return sizeof(T); }),
            2u);
}

}  // namespace
}  // namespace castor
