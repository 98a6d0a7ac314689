#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/exact_sum/exact_sum.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

using AddSquaresOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Operands, AddSquaresOnGpu, testing::Bool(),
                         AlignmentName);

// Returns the sum with its carries settled: the host settles them as it adds, a
// GPU does not.
ExactSum Settled(const ExactSum& sum) {
  ExactSum settled;
  settled.Add(sum);
  return settled;
}

TEST_P(AddSquaresOnGpu, GivesTheHostsBits) {
  for (DType dtype : kAllTypes) {
    for (int64_t size : {0, 1, 63, 64, 65, 2047, 2048, 32768, 32769, 100003}) {
      for (double scale : {1.0, 1e-30, 1e15}) {
        GuardedBuffer x = Empty(dtype, size, 1);
        x.FillNormal(random_, scale);
        ExactSum expected;
        expected.Add(0.7);
        ExactSum sum = expected;
        ASSERT_TRUE(kernels::Run(host_, AddSquaresArgs{.size = size,
                                                       .dtype = dtype,
                                                       .x = x.data(),
                                                       .sum = &expected,
                                                       .label = 3})
                        .ok());
        InEveryOrder([&] {
          OnDevice on;
          ExactSum* p = static_cast<ExactSum*>(on.CopyBytes(&sum, sizeof(sum)));
          ASSERT_TRUE(kernels::Run(on.context(), AddSquaresArgs{.size = size,
                                                                .dtype = dtype,
                                                                .x = on.In(x),
                                                                .sum = p,
                                                                .label = 3})
                          .ok());
          ASSERT_TRUE(on.Finish().ok());
          ExactSum got;
          TestDevice::Get()->ToHost(&got, p, sizeof(got));
          EXPECT_EQ(Settled(got).limbs, Settled(expected).limbs)
              << size << " " << scale;
          EXPECT_EQ(got.invalid, expected.invalid);
          EXPECT_EQ(got.invalid_label, expected.invalid_label);
        });
      }
    }
  }
}

// Any bits that are a finite number's: zeros, denormals, and squares of which
// sums round.
TEST_P(AddSquaresOnGpu, GivesTheHostsBitsForNumbersOfEverySize) {
  constexpr int64_t kSize = 5000;
  GuardedBuffer x = Empty(DType::kFloat32, kSize, 1);
  for (int64_t i = 0; i < kSize; ++i) {
    const auto bits = static_cast<uint32_t>(random_());
    // Some tiles have numbers of one size, some are all denormal.
    const uint32_t masks[] = {0xffffffff, 0x80ffffff, 0x007fffff, 0x80000000};
    const float value = std::bit_cast<float>(bits & masks[i / 64 % 4]);
    x.Set(i, std::isfinite(value) ? value : 0x1.fffffep127f);
  }
  ExactSum expected;
  ASSERT_TRUE(kernels::Run(host_, AddSquaresArgs{.size = kSize,
                                                 .dtype = DType::kFloat32,
                                                 .x = x.data(),
                                                 .sum = &expected})
                  .ok());
  InEveryOrder([&] {
    const ExactSum zero;
    OnDevice on;
    ExactSum* p = static_cast<ExactSum*>(on.CopyBytes(&zero, sizeof(zero)));
    ASSERT_TRUE(
        kernels::Run(on.context(), AddSquaresArgs{.size = kSize,
                                                  .dtype = DType::kFloat32,
                                                  .x = on.In(x),
                                                  .sum = p})
            .ok());
    ASSERT_TRUE(on.Finish().ok());
    ExactSum got;
    TestDevice::Get()->ToHost(&got, p, sizeof(got));
    EXPECT_EQ(Settled(got).limbs, Settled(expected).limbs);
    EXPECT_EQ(got.invalid, 0);
  });
}

TEST_P(AddSquaresOnGpu, CountsTilesThatAreNotFinite) {
  for (double odd : {std::numeric_limits<double>::quiet_NaN(),
                     -std::numeric_limits<double>::infinity()}) {
    GuardedBuffer x = Normal(DType::kFloat32, 300, 0);
    x.Set(70, odd);
    x.Set(299, odd);
    ExactSum expected;
    ASSERT_TRUE(kernels::Run(host_, AddSquaresArgs{.size = 300,
                                                   .dtype = DType::kFloat32,
                                                   .x = x.data(),
                                                   .sum = &expected})
                    .ok());
    ASSERT_EQ(expected.invalid, 2);
    const ExactSum zero;
    OnDevice on;
    ExactSum* p = static_cast<ExactSum*>(on.CopyBytes(&zero, sizeof(zero)));
    ASSERT_TRUE(
        kernels::Run(
            on.context(),
            AddSquaresArgs{
                .size = 300, .dtype = DType::kFloat32, .x = on.In(x), .sum = p})
            .ok());
    ASSERT_TRUE(on.Finish().ok());
    ExactSum got;
    TestDevice::Get()->ToHost(&got, p, sizeof(got));
    EXPECT_EQ(Settled(got).limbs, Settled(expected).limbs);
    EXPECT_EQ(got.invalid, 2);
  }
}

TEST_P(AddSquaresOnGpu, NamesTheGreatestLabelOfInvalidAddends) {
  // Two blocks, one of which is all finite.
  const GuardedBuffer good = Normal(DType::kFloat16, 40000, 1);
  GuardedBuffer bad = Like(good, 1);
  bad.Set(39999, std::numeric_limits<double>::infinity());
  InEveryOrder([&] {
    const ExactSum zero;
    OnDevice on;
    ExactSum* p = static_cast<ExactSum*>(on.CopyBytes(&zero, sizeof(zero)));
    const auto label_after = [&](const GuardedBuffer& x, int64_t label) {
      EXPECT_TRUE(kernels::Run(on.context(), AddSquaresArgs{.size = x.size(),
                                                            .dtype = x.dtype(),
                                                            .x = on.In(x),
                                                            .sum = p,
                                                            .label = label})
                      .ok());
      EXPECT_TRUE(on.Finish().ok());
      ExactSum got;
      TestDevice::Get()->ToHost(&got, p, sizeof(got));
      return got.invalid_label;
    };
    EXPECT_EQ(label_after(good, 9), 0);
    EXPECT_EQ(label_after(bad, 5), 5);
    EXPECT_EQ(label_after(bad, 2), 5);
    EXPECT_EQ(label_after(good, 7), 5);
    EXPECT_EQ(label_after(bad, 6), 6);
  });
}

// Sums of every size, with carries that are not settled.
TEST_P(AddSquaresOnGpu, GiveTheHostsValues) {
  std::vector<ExactSum> sums(300);
  for (size_t i = 0; i < sums.size(); ++i) {
    for (uint64_t n = random_() % 20; n > 0; --n) {
      // Any bits but the sign.
      sums[i].Add(std::bit_cast<double>(random_() >> 1));
    }
    if (i % 3 == 0) sums[i].Add(std::bit_cast<double>(random_() % 1000));
    if (i % 5 == 0) sums[i].limbs[random_() % 66] += int64_t{1} << 62;
    // These sums end just beside a tie.
    if (i % 7 == 0) {
      sums[i] = ExactSum();
      sums[i].Add(
          std::ldexp(static_cast<double>((uint64_t{1} << 52) + i), 200));
      sums[i].Add(std::ldexp(1.0, 199));
      if (i % 2 == 0) sums[i].Add(std::ldexp(1.0, -1000));
    }
  }
  sums[4] = ExactSum();
  sums[5].limbs[67] = int64_t{1} << 40;  // beyond all doubles
  sums[5].invalid = 0;
  std::vector<double> expected(sums.size()), got(sums.size());
  ASSERT_TRUE(kernels::Run(host_, ExactSumValuesArgs{.count = 300,
                                                     .sums = sums.data(),
                                                     .values = expected.data()})
                  .ok());
  EXPECT_EQ(expected[4], 0);
  EXPECT_EQ(expected[5], std::numeric_limits<double>::infinity());
  InEveryOrder([&] {
    OnDevice on;
    double* const values = on.In(got);
    ASSERT_TRUE(
        kernels::Run(on.context(),
                     ExactSumValuesArgs{
                         .count = 300, .sums = on.In(sums), .values = values})
            .ok());
    ASSERT_TRUE(on.Finish().ok());
    TestDevice::Get()->ToHost(got.data(), values, 300 * sizeof(double));
    for (size_t i = 0; i < sums.size(); ++i) {
      if (std::isnan(expected[i]) && std::isnan(got[i])) continue;
      EXPECT_EQ(std::bit_cast<uint64_t>(got[i]),
                std::bit_cast<uint64_t>(expected[i]))
          << i;
    }
  });
}

}  // namespace
}  // namespace castor::kernels
