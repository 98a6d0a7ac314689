#include "models/rope/sin_cos.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

namespace castor::models {
namespace {

// The library's numbers in long double, rounded to fp32, are the nearest ones:
// none of these angles is one of the few where that is in doubt.
void ExpectNearest(float angle) {
  float sin, cos;
  SinCos(angle, &sin, &cos);
  ASSERT_EQ(sin, static_cast<float>(std::sin(static_cast<long double>(angle))))
      << angle;
  ASSERT_EQ(cos, static_cast<float>(std::cos(static_cast<long double>(angle))))
      << angle;
}

TEST(SinCos, AreTheNearestNumbers) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-40, 25);
  for (int i = 0; i < 20000; ++i) {
    ExpectNearest(static_cast<float>(i));
    ExpectNearest(static_cast<float>(std::exp2(exponent(random))));
  }
}

// Near multiples of a quarter turn, where one of the two nearly vanishes.
TEST(SinCos, KeepTheirDigitsAtQuarterTurns) {
  for (int64_t quarter = 0; quarter < 2000; ++quarter) {
    const float at =
        static_cast<float>(static_cast<double>(quarter) * (M_PI / 2));
    ExpectNearest(at);
    ExpectNearest(std::nextafter(at, 1e9f));
    if (quarter > 0) ExpectNearest(std::nextafter(at, 0.0f));
  }
  ExpectNearest(std::nextafter(0x1p25f, 0.0f));
}

}  // namespace
}  // namespace castor::models
