#include "device/comm/ordered_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/with_type.h"
#include "device/comm/testing/communicator_oracle.h"

namespace castor {
namespace {

TEST(OrderedSum, GivesTheOraclesBitsForAllSizesTypesAndThreads) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const DType dtype : kAllTypes) {
      for (const int64_t n : {0, 1, 255, 256, 257, 16'384, 40'001}) {
        for (const int num_parts : {1, 2, 7}) {
          for (const bool assign : {false, true}) {
            std::vector<float> sum(n, 3.5f), expected = sum;
            std::vector<Bytes> parts;
            std::vector<const void*> pointers;
            for (int p = 0; p < num_parts; ++p) {
              parts.push_back(RandomNumbers(dtype, n, 100 * p + 1));
              OracleAdd(dtype, parts.back(), assign && p == 0, &expected);
            }
            for (const Bytes& part : parts) pointers.push_back(part.data());
            AddInOrder(&pool, dtype, n, pointers, sum.data(), assign);
            EXPECT_TRUE(sum == expected)
                << DTypeName(dtype) << " " << n << " " << num_parts;
          }
        }
      }
    }
  }
}

// NaNs, too, are the ones that the types' own conversions give.
TEST(OrderedSum, WidensEverySixteenBits) {
  ThreadPool pool(1);
  std::vector<uint16_t> bits(65536);
  std::iota(bits.begin(), bits.end(), 0);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<float> sum(bits.size());
    AddInOrder(&pool, dtype, static_cast<int64_t>(bits.size()), {bits.data()},
               sum.data(), /*assign=*/true);
    for (const uint16_t b : bits) {
      const float expected =
          dtype == DType::kBFloat16
              ? static_cast<float>(std::bit_cast<BFloat16>(b))
              : static_cast<float>(std::bit_cast<Float16>(b));
      ASSERT_EQ(std::bit_cast<uint32_t>(sum[b]),
                std::bit_cast<uint32_t>(expected))
          << DTypeName(dtype) << " " << b;
    }
  }
}

TEST(OrderedSum, TakesPartsOfAnyAlignmentAndWritesNothingBeside) {
  ThreadPool pool(1);
  constexpr int64_t kSize = 1000;
  for (const DType dtype : kAllTypes) {
    const Bytes part = RandomNumbers(dtype, kSize, 5);
    Bytes shifted(part.size() + 1);
    std::memcpy(shifted.data() + 1, part.data(), part.size());
    std::vector<float> sum(kSize + 2, -7.0f), expected(kSize);
    OracleAdd(dtype, part, /*assign=*/true, &expected);
    AddInOrder(&pool, dtype, kSize, {shifted.data() + 1}, sum.data() + 1,
               /*assign=*/true);
    EXPECT_EQ(sum.front(), -7.0f);
    EXPECT_EQ(sum.back(), -7.0f);
    EXPECT_EQ(std::memcmp(sum.data() + 1, expected.data(), 4 * kSize), 0);
  }
}

TEST(OrderedSum, KeepsTheSignOfZeroAndTheOrder) {
  ThreadPool pool(1);
  const float minus_zero = -0.0f;
  float sum = 1;
  AddInOrder(&pool, DType::kFloat32, 1, {&minus_zero}, &sum, /*assign=*/true);
  EXPECT_EQ(std::memcmp(&sum, &minus_zero, 4), 0);
  // (2^24 + 1) + 1 = 2^24 in fp32, (1 + 1) + 2^24 is not.
  const float big = 16'777'216.0f, one = 1.0f;
  AddInOrder(&pool, DType::kFloat32, 1, {&big, &one, &one}, &sum, true);
  EXPECT_EQ(sum, big);
  AddInOrder(&pool, DType::kFloat32, 1, {&one, &one, &big}, &sum, true);
  EXPECT_EQ(sum, big + 2);
}

}  // namespace
}  // namespace castor
