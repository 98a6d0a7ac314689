#include "base/state_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/philox.h"

namespace castor {
namespace {

constexpr StateFormat kEightBits[] = {StateFormat::kSigned8,
                                      StateFormat::kUnsigned8};

int NumCodes(StateFormat format) {
  return static_cast<int>(MostCode(format)) + 1;
}

TEST(StateFormat, CountsBytesWithScales) {
  EXPECT_EQ(StateBytes(StateFormat::kFloat32, 128), 512);
  EXPECT_EQ(StateBytes(StateFormat::kBFloat16, 128), 256);
  EXPECT_EQ(StateBytes(StateFormat::kSigned8, 128), 136);
  EXPECT_EQ(StateBytes(StateFormat::kUnsigned8, 64), 68);
}

TEST(StateFormat, CodesStandForGrowingValuesOfASixteenthAtLeast) {
  for (const StateFormat format : kEightBits) {
    const TileScale scale = MakeTileScale(format, 1.0f);
    float before = DecodeByte(format, scale, 0);
    EXPECT_EQ(before, 0);
    for (int code = 1; code < NumCodes(format); ++code) {
      const float value = DecodeByte(format, scale, static_cast<uint8_t>(code));
      ASSERT_GT(value, before);
      if (code > 8) {
        EXPECT_GE((value - before) / value, 1.0f / 16);
        EXPECT_LE((value - before) / value, 1.0f / 8);
      }
      before = value;
    }
    EXPECT_EQ(before, 1.875f);
    const int least = format == StateFormat::kSigned8 ? -17 : -33;
    EXPECT_EQ(DecodeByte(format, scale, 1), std::ldexp(1.0f, least));
  }
  const TileScale scale = MakeTileScale(StateFormat::kSigned8, 1.0f);
  EXPECT_EQ(DecodeByte(StateFormat::kSigned8, scale, 255), -1.875f);
}

// Checkpoints hold fp32.
TEST(StateFormat, ValuesOfCodesBecomeTheSameCodes) {
  for (const StateFormat format : kEightBits) {
    for (int exponent = -90; exponent <= 126; exponent += 9) {
      constexpr int64_t kSize = 2 * kStateTile;
      for (int first = 0; first < NumCodes(format); first += 60) {
        std::vector<std::byte> states(StateBytes(format, kSize));
        const float scale = std::ldexp(1.0f, exponent);
        for (int i = 0; i < kSize; ++i) {
          int code = std::min(first + i % 64, NumCodes(format) - 1);
          // A tile's largest value has the scale's exponent.
          if (i % 64 == 63) code = NumCodes(format) - 1 - i / 64;
          if (format == StateFormat::kSigned8 && code > 0 && i % 3 == 0) {
            code += 128;
          }
          states[i] = static_cast<std::byte>(code);
        }
        std::memcpy(states.data() + kSize, &scale, sizeof(scale));
        std::memcpy(states.data() + kSize + 4, &scale, sizeof(scale));
        std::vector<float> values(kSize);
        DecodeStates(format, states.data(), kSize, 0, kSize, values.data());
        std::vector<std::byte> again(states.size());
        EncodeStates(format, values.data(), again.data(), kSize, 0, kSize);
        ASSERT_EQ(again, states) << exponent << " " << first;
      }
    }
  }
}

TEST(StateFormat, NothingIsEncodedAsTheLeastScale) {
  for (const StateFormat format : kEightBits) {
    std::vector<std::byte> states(StateBytes(format, 128), std::byte{0xff});
    const std::vector<float> zeros(128);
    EncodeStates(format, zeros.data(), states.data(), 128, 0, 70);
    std::vector<std::byte> cleared(states.size(), std::byte{0xff});
    ClearStates(format, cleared.data(), 128, 0, 128);
    EXPECT_EQ(states, cleared);
    std::vector<float> values(128, 1.0f);
    DecodeStates(format, states.data(), 128, 0, 128, values.data());
    EXPECT_EQ(values, zeros);
  }
}

TEST(StateFormat, ToNearestIsWithinASixteenth) {
  for (const StateFormat format : kEightBits) {
    std::vector<float> values(kStateTile);
    for (int64_t i = 0; i < kStateTile; ++i) {
      const double u = RandomWord({1, 2}, i) * 0x1p-32;
      values[i] = static_cast<float>(std::exp(-8 * u));
      if (format == StateFormat::kSigned8 && i % 2 == 1) values[i] *= -1;
    }
    std::vector<std::byte> states(StateBytes(format, kStateTile));
    EncodeStates(format, values.data(), states.data(), kStateTile, 0,
                 kStateTile);
    std::vector<float> got(kStateTile);
    DecodeStates(format, states.data(), kStateTile, 0, kStateTile, got.data());
    for (int64_t i = 0; i < kStateTile; ++i) {
      EXPECT_NEAR(got[i], values[i], std::fabs(values[i]) / 16) << i;
    }
  }
}

// Over all random numbers.
TEST(StateFormat, StochasticRoundingIsRightInTheMean) {
  for (const StateFormat format : kEightBits) {
    const TileScale scale = MakeTileScale(format, 0.5f);
    for (const float value : {0.9f, 0.3f, 0.0123f, 3e-5f, 1e-9f}) {
      double sum = 0;
      uint8_t least = 255, most = 0;
      for (uint32_t random = 0; random < 65536; ++random) {
        const uint8_t code = EncodeByte(format, scale, value, random << 4);
        sum += DecodeByte(format, scale, code);
        least = std::min(least, code);
        most = std::max(most, code);
      }
      ASSERT_LE(most - least, 1);
      const double step =
          DecodeByte(format, scale, most) - DecodeByte(format, scale, least);
      // What is far below the least value is 0 or, unsigned, never so.
      if (value < DecodeByte(format, scale, 1)) {
        EXPECT_EQ(least, format == StateFormat::kSigned8 ? 0 : 1);
        if (format == StateFormat::kUnsigned8) continue;
      }
      EXPECT_NEAR(sum / 65536, value, step / 65536 + value * 1e-7) << value;
    }
  }
  for (const float value : {1.001f, -3.3e-20f}) {
    double sum = 0;
    for (uint32_t random = 0; random < 65536; ++random) {
      sum += static_cast<float>(RoundStochastically(value, random));
    }
    EXPECT_NEAR(sum / 65536, value, std::fabs(value) * 1e-6);
  }
}

TEST(StateFormat, WhatIsNotFiniteStaysSo) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    for (const StateFormat format :
         {StateFormat::kSigned8, StateFormat::kUnsigned8,
          StateFormat::kBFloat16}) {
      std::vector<float> values(kStateTile, 1.0f);
      values[7] = bad;
      std::vector<std::byte> states(StateBytes(format, kStateTile));
      EncodeStates(format, values.data(), states.data(), kStateTile, 0,
                   kStateTile);
      DecodeStates(format, states.data(), kStateTile, 0, kStateTile,
                   values.data());
      EXPECT_FALSE(std::isfinite(values[7])) << bad;
    }
  }
}

TEST(StateFormat, CopiesARange) {
  for (const StateFormat format : kEightBits) {
    std::vector<std::byte> from(StateBytes(format, 256));
    for (size_t i = 0; i < from.size(); ++i) {
      from[i] = static_cast<std::byte>(i * 37);
    }
    std::vector<std::byte> to(from.size());
    CopyStates(format, from.data(), to.data(), 256, 64, 150);
    std::vector<float> a(86), b(86);
    DecodeStates(format, from.data(), 256, 64, 150, a.data());
    DecodeStates(format, to.data(), 256, 64, 150, b.data());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
    EXPECT_EQ(to[63], std::byte{0});
    EXPECT_EQ(to[150], std::byte{0});
  }
}

}  // namespace
}  // namespace castor
