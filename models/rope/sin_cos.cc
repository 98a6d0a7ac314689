#include "models/rope/sin_cos.h"

#include <cmath>
#include <cstdint>

#include "base/check.h"

namespace castor::models {
namespace {

// pi / 2 in three parts, the first two of 26 bits: an integer of at most 25
// bits times one of them is exact, and so is the difference from the angle.
constexpr double kHalfPi0 = 0x1.921fb58p+0;
constexpr double kHalfPi1 = -0x1.dde974p-27;
constexpr double kHalfPi2 = 0x1.1a62633145c07p-54;

// Taylor's series about 0 for |x| <= pi / 4. The terms that are left out are
// below x^20 / 20!, 2^-67.
double Sin(double x) {
  const double x2 = x * x;
  double sum = 1;
  for (int k = 18; k > 0; k -= 2) sum = 1 - x2 * sum / (k * (k + 1));
  return x * sum;
}
double Cos(double x) {
  const double x2 = x * x;
  double sum = 1;
  for (int k = 17; k > 0; k -= 2) sum = 1 - x2 * sum / (k * (k + 1));
  return sum;
}

}  // namespace

void SinCos(float angle, float* sin, float* cos) {
  CASTOR_CHECK(angle >= 0 && angle < 0x1p25f);
  const double x = angle;
  const double quarters = std::floor(x * (2 / M_PI) + 0.5);
  const double rest =
      ((x - quarters * kHalfPi0) - quarters * kHalfPi1) - quarters * kHalfPi2;
  const float s = static_cast<float>(Sin(rest));
  const float c = static_cast<float>(Cos(rest));
  switch (static_cast<int64_t>(quarters) & 3) {
    case 0:
      *sin = s;
      *cos = c;
      break;
    case 1:
      *sin = c;
      *cos = -s;
      break;
    case 2:
      *sin = -s;
      *cos = -c;
      break;
    default:
      *sin = -c;
      *cos = s;
  }
}

}  // namespace castor::models
