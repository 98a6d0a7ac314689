#include "kernels/cpu/convert.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels::cpu {
namespace {

constexpr DType kSixteenBits[] = {DType::kBFloat16, DType::kFloat16};

// The scalar types of base/dtype.h, which their own test compares with the
// types' definition.
float Widened(DType dtype, uint16_t bits) {
  return WithType(dtype, [&]<class T>(T x) {
    if constexpr (sizeof(T) == sizeof(bits)) x = std::bit_cast<T>(bits);
    return static_cast<float>(x);
  });
}
uint16_t Rounded(DType dtype, float x) {
  return dtype == DType::kBFloat16 ? BFloat16(x).bits : Float16(x).bits;
}

TEST(Convert, WidensEverySixteenBitsExactly) {
  std::vector<uint16_t> x(65536);
  for (int i = 0; i < 65536; ++i) x[i] = static_cast<uint16_t>(i);
  for (DType dtype : kSixteenBits) {
    ForEachTarget([&](const char* target) {
      std::vector<float> y(x.size());
      ToFloat(dtype, x.data(), static_cast<int64_t>(x.size()), y.data());
      for (uint16_t bits : x) {
        ASSERT_EQ(std::bit_cast<uint32_t>(y[bits]),
                  std::bit_cast<uint32_t>(Widened(dtype, bits)))
            << target << " " << DTypeName(dtype) << " " << bits;
      }
    });
  }
}

// All upper halves of a float, and of the lower ones those where rounding
// changes its mind: bf16 at 0x8000, fp16 at multiples of 0x1000, which ones
// depending on how far down it is.
TEST(Convert, RoundsLikeTheScalarTypeNearEveryTie) {
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    for (uint32_t lower = 0; lower < 0x10000; lower += 0x1000) {
      for (uint32_t beside : {0u, 1u, 0xfffu}) {
        x.push_back(std::bit_cast<float>(upper << 16 | (lower + beside)));
      }
    }
  }
  for (DType dtype : kSixteenBits) {
    ForEachTarget([&](const char* target) {
      std::vector<uint16_t> y(x.size());
      FromFloat(dtype, x.data(), static_cast<int64_t>(x.size()), y.data());
      for (size_t i = 0; i < x.size(); ++i) {
        // NaNs, too, are the same ones.
        ASSERT_EQ(y[i], Rounded(dtype, x[i]))
            << target << " " << DTypeName(dtype) << " " << std::hex
            << std::bit_cast<uint32_t>(x[i]);
      }
    });
  }
}

TEST(Convert, KeepsToItsRangeAtEverySizeAndAlignment) {
  std::mt19937_64 random(1);
  for (DType dtype : kAllTypes) {
    for (int64_t size = 0; size <= 70; ++size) {
      for (int64_t shift : {0, 1, 3}) {
        GuardedBuffer x(DType::kFloat32, size, shift);
        GuardedBuffer rounded(dtype, size, shift), expected(dtype, size);
        GuardedBuffer back(DType::kFloat32, size, shift);
        x.FillNormal(random);
        expected.CopyFrom(x);
        FromFloat(dtype, x.floats(), size, rounded.data());
        ToFloat(dtype, rounded.data(), size, back.floats());
        AddInto(x.floats(), size, back.floats());
        EXPECT_TRUE(rounded.GuardsIntact() && back.GuardsIntact());
        ASSERT_TRUE(rounded.SameBits(expected));
        for (int64_t i = 0; i < size; ++i) {
          ASSERT_EQ(back[i],
                    static_cast<float>(expected[i]) + static_cast<float>(x[i]));
        }
      }
    }
  }
}

TEST(Convert, MovesTilesBetweenStrides) {
  std::mt19937_64 random(2);
  for (DType dtype : kAllTypes) {
    for (int64_t padding : {0, 3}) {
      constexpr int64_t kRows = 5, kColumns = 19;
      const int64_t ld = kColumns + padding;
      GuardedBuffer x(dtype, kRows * ld, 1);
      GuardedBuffer y(DType::kFloat32, kRows * (kColumns + 1));
      GuardedBuffer z(dtype, kRows * ld, 1);
      x.FillNormal(random);
      LoadTile(dtype, x.data(), ld, kRows, kColumns, y.floats(), kColumns + 1);
      StoreTile(dtype, y.floats(), kColumns + 1, kRows, kColumns, z.data(), ld);
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
