#include "base/state_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
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
  EXPECT_EQ(StateBytes(StateFormat::kSplit, 128), 384);
}

// Any bits at all, and those around a bf16's and around what is finite.
std::vector<float> ValuesToSplit() {
  std::vector<float> values;
  for (uint64_t i = 0; i < 20'000; ++i) {
    values.push_back(std::bit_cast<float>(RandomWord({8, 1}, i)));
  }
  for (const uint32_t near :
       {0u, 0x00800000u, 0x3f7f8000u, 0x3f800000u, 0x7f7f8000u, 0x7f800000u}) {
    for (uint32_t i = 0; i < 600; ++i) {
      for (const uint32_t sign : {0u, 0x80000000u}) {
        const uint32_t bits = near + 37 * i - 37 * 300;
        values.push_back(std::bit_cast<float>((bits & 0x7fffffffu) | sign));
      }
    }
  }
  return values;
}

TEST(StateFormat, SplitValuesHave16BitsOfMantissa) {
  for (const float value : ValuesToSplit()) {
    const SplitFloat split = Split(value, 128);
    const float joined = Join(split);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(joined));
      ASSERT_TRUE(std::isnan(static_cast<float>(split.nearest)));
      continue;
    }
    ASSERT_EQ(std::signbit(joined), std::signbit(value));
    // Below the smallest normal number, and towards infinity, the steps are
    // those of the exponents there.
    if (std::isfinite(value) && std::isfinite(joined)) {
      const float unit = std::ldexp(
          1.0f, std::max(std::ilogb(value == 0 ? 1e-45f : value), -126) - 15);
      ASSERT_LE(std::fabs(joined - value), unit / 2) << value;
      // The bf16 is nearest to the split value.
      const float nearest = static_cast<float>(split.nearest);
      const float other = static_cast<float>(BFloat16(joined));
      if (std::isfinite(nearest)) {
        ASSERT_EQ(std::fabs(nearest - joined), std::fabs(other - joined));
      }
    }
    const SplitFloat again = Split(joined, 128);
    ASSERT_EQ(again.nearest.bits, split.nearest.bits);
    ASSERT_EQ(again.rest, split.rest);
    // Drawn bits move it to a neighbour, and an exact value nowhere.
    for (const uint32_t random : {0u, 100u, 255u}) {
      const float drawn = Join(Split(value, random));
      ASSERT_EQ(Join(Split(joined, random)), joined);
      if (!std::isfinite(drawn)) continue;
      ASSERT_LE(
          std::fabs(drawn - value),
          std::ldexp(
              1.0f,
              std::max(std::ilogb(drawn == 0 ? 1e-45f : drawn), -126) - 15));
    }
  }
}

TEST(StateFormat, SplitValuesAreRightInTheMean) {
  const float value = 1.0f + 0x1.6p-17f;  // 11/32 of a step above 1
  double sum = 0;
  for (uint32_t random = 0; random < 256; ++random) {
    sum += Join(Split(value, random));
  }
  EXPECT_EQ(sum / 256, static_cast<double>(value));
}

TEST(StateFormat, ArraysOfSplitValuesHaveTwoParts) {
  constexpr int64_t kSize = 2 * kStateTile;
  std::vector<float> values(kSize);
  for (int64_t i = 0; i < kSize; ++i) {
    values[i] = Join(Split(
        std::bit_cast<float>(0x3f000000u + RandomWord({8, 2}, i) / 4096), 128));
  }
  std::vector<std::byte> states(StateBytes(StateFormat::kSplit, kSize));
  EncodeStates(StateFormat::kSplit, values.data(), states.data(), kSize, 0,
               kSize);
  for (int64_t i = 0; i < kSize; ++i) {
    BFloat16 nearest;
    std::memcpy(&nearest, states.data() + 2 * i, 2);
    ASSERT_EQ(nearest.bits, Split(values[i], 128).nearest.bits);
  }
  std::vector<float> decoded(kSize);
  DecodeStates(StateFormat::kSplit, states.data(), kSize, 64, kSize - 3,
               decoded.data());
  EXPECT_TRUE(
      std::equal(values.begin() + 64, values.end() - 3, decoded.begin()));
  std::vector<std::byte> copy(states.size());
  CopyStates(StateFormat::kSplit, states.data(), copy.data(), kSize, 64, 100);
  DecodeStates(StateFormat::kSplit, copy.data(), kSize, 0, kSize,
               decoded.data());
  for (int64_t i = 0; i < kSize; ++i) {
    ASSERT_EQ(decoded[i], i >= 64 && i < 100 ? values[i] : 0) << i;
  }
  ClearStates(StateFormat::kSplit, copy.data(), kSize, 70, 100);
  DecodeStates(StateFormat::kSplit, copy.data(), kSize, 0, kSize,
               decoded.data());
  for (int64_t i = 0; i < kSize; ++i) {
    ASSERT_EQ(decoded[i], i >= 64 && i < 70 ? values[i] : 0) << i;
  }
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
      // A value far below the least one becomes 0, but never in the unsigned
      // format.
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
