#include "base/first_not_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace castor {
namespace {

using Limits = std::numeric_limits<float>;

TEST(FirstNotFinite, FindsTheFirstAtEveryPlaceAndLength) {
  for (const float bad :
       {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN(),
        Limits::infinity(), -Limits::infinity()}) {
    for (const int64_t size : {1, 255, 256, 257, 511, 512, 1000}) {
      for (const int64_t at : {int64_t{0}, size / 2, size - 1}) {
        std::vector<float> values(size, Limits::max());
        values[at] = bad;
        EXPECT_EQ(FirstNotFinite(values), at) << size;
        values[size - 1] = bad;
        EXPECT_EQ(FirstNotFinite(values), at) << size;
      }
    }
  }
}

TEST(FirstNotFinite, TakesAllNumbers) {
  EXPECT_EQ(FirstNotFinite({}), -1);
  for (const float good :
       {0.0f, -0.0f, Limits::denorm_min(), Limits::max(), Limits::lowest()}) {
    EXPECT_EQ(FirstNotFinite(std::vector<float>(777, good)), -1) << good;
  }
}

}  // namespace
}  // namespace castor
