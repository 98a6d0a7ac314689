#include "kernels/cpu/convert.h"

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/guarded_buffer.h"

namespace castor::kernels::cpu {
namespace {

TEST(Convert, WidensEveryBFloat16Exactly) {
  std::vector<BFloat16> x(65536);
  for (int i = 0; i < 65536; ++i) x[i].bits = static_cast<uint16_t>(i);
  std::vector<float> y(x.size());
  ToFloat(x.data(), static_cast<int64_t>(x.size()), y.data());
  for (uint32_t i = 0; i < 65536; ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), i << 16);
  }
}

// All upper halves with the lower halves where rounding changes its mind.
TEST(Convert, RoundsLikeTheScalarTypeNearEveryTie) {
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    for (uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u,
                           0xffffu}) {
      x.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  std::vector<BFloat16> y(x.size());
  ToBFloat16(x.data(), static_cast<int64_t>(x.size()), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i].bits, BFloat16(x[i]).bits)
        << std::hex << std::bit_cast<uint32_t>(x[i]);
  }
}

TEST(Convert, KeepsToItsRangeAtEverySizeAndAlignment) {
  std::mt19937_64 random(1);
  for (int64_t size = 0; size <= 70; ++size) {
    for (int64_t shift : {0, 1, 3}) {
      GuardedBuffer x(DType::kFloat32, size, shift);
      GuardedBuffer half(DType::kBFloat16, size, shift);
      GuardedBuffer back(DType::kFloat32, size, shift);
      x.FillNormal(random);
      ToBFloat16(x.floats(), size, static_cast<BFloat16*>(half.data()));
      ToFloat(static_cast<const BFloat16*>(half.data()), size, back.floats());
      AddInto(x.floats(), size, back.floats());
      EXPECT_TRUE(half.GuardsIntact() && back.GuardsIntact());
      for (int64_t i = 0; i < size; ++i) {
        const float f = static_cast<float>(x[i]);
        const float rounded = static_cast<float>(BFloat16(f));
        ASSERT_EQ(half[i], rounded);
        ASSERT_EQ(back[i], rounded + f);
      }
    }
  }
}

TEST(Convert, MovesTilesBetweenStrides) {
  std::mt19937_64 random(2);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int64_t padding : {0, 3}) {
      constexpr int64_t kRows = 5, kColumns = 19;
      const int64_t ld = kColumns + padding;
      GuardedBuffer x(dtype, kRows * ld, 1);
      GuardedBuffer y(DType::kFloat32, kRows * (kColumns + 1));
      GuardedBuffer z(dtype, kRows * ld, 1);
      x.FillNormal(random);
      LoadTile(dtype, x.data(), ld, kRows, kColumns, y.floats(), kColumns + 1);
      StoreTile(dtype, y.floats(), kColumns + 1, kRows, kColumns, z.data(),
                ld);
      EXPECT_TRUE(y.GuardsIntact() && z.GuardsIntact());
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t c = 0; c < kColumns; ++c) {
          ASSERT_EQ(y[r * (kColumns + 1) + c], x[r * ld + c]);
          ASSERT_EQ(z[r * ld + c], x[r * ld + c]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace castor::kernels::cpu
