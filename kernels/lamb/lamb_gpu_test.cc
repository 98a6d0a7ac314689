// LAMB on the GPU gives the host's bits: a chunk may live on either side, and
// its shards on both (promise P1).
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/lamb/chunk_for_test.h"
#include "kernels/lamb/lamb.h"
#include "kernels/lamb/lamb_program.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

absl::Status UpdateOnDevice(LambChunk& chunk,
                            const std::vector<LambRange>& ranges, bool from_sum,
                            float scale) {
  OnDevice on;
  LambMeasureArgs measure = chunk.MeasureArgs(ranges, from_sum, nullptr);
  LambApplyArgs apply = chunk.ApplyArgs(ranges, nullptr);
  const int64_t sums = static_cast<int64_t>(chunk.exact.size());
  measure.payload = apply.payload = on.Out(chunk.payload);
  const float* const sum = on.OutFloats(chunk.sum);
  measure.gradient_sum = from_sum ? sum : nullptr;
  measure.master = apply.master = on.OutFloats(chunk.master);
  apply.m = measure.m = on.OutFloats(chunk.m);
  apply.v = measure.v = on.OutFloats(chunk.v);
  measure.grad_scale = apply.grad_scale = on.In(std::vector<float>{scale});
  measure.sums = on.In(chunk.exact);
  double* const values = on.In(chunk.values);
  apply.sums = values;
  absl::Status status = kernels::Run(on.context(), measure);
  status.Update(
      kernels::Run(on.context(),
                   ExactSumValuesArgs{
                       .count = sums, .sums = measure.sums, .values = values}));
  status.Update(kernels::Run(on.context(), apply));
  status.Update(on.Finish());
  TestDevice::Get()->ToHost(chunk.values.data(), values,
                            sums * static_cast<int64_t>(sizeof(double)));
  return status;
}

// NaNs are equal, whichever they are.
void ExpectSame(const LambChunk& got, const LambChunk& expected) {
  ExpectSame(got.payload, expected.payload, "payload");
  ExpectSame(got.sum, expected.sum, "sum");
  ExpectSame(got.master, expected.master, "master");
  ExpectSame(got.m, expected.m, "m");
  ExpectSame(got.v, expected.v, "v");
  for (size_t i = 0; i < got.values.size(); ++i) {
    if (std::isnan(got.values[i]) && std::isnan(expected.values[i])) continue;
    ASSERT_EQ(std::bit_cast<uint64_t>(got.values[i]),
              std::bit_cast<uint64_t>(expected.values[i]))
        << i;
  }
}

using LambOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Arrays, LambOnGpu, testing::Bool(), AlignmentName);

TEST_P(LambOnGpu, GivesTheHostsBits) {
  const std::vector<int64_t> sizes = {1, 70, 64, 40000, 2048, 33000};
  for (DType dtype : kAllTypes) {
    for (bool from_sum : {false, true}) {
      for (bool odd : {false, true}) {
        const auto make = [&] {
          LambChunk chunk(dtype, sizes, Shift(1), 5);
          // Denormals, infinities and NaNs in one of the parameters.
          const float kOdd[] = {0x1p-140f, -0x1p-149f, 0x1p127f,
                                std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()};
          for (int64_t i = 0; odd && i < 64; ++i) {
            chunk.payload.Set(chunk.Offset(2) + i, kOdd[i % 5]);
            chunk.sum.Set(chunk.Offset(2) + i, kOdd[i % 4]);
            chunk.v.Set(chunk.Offset(5) + i, std::fabs(kOdd[i % 2]));
          }
          return chunk;
        };
        LambChunk expected = make();
        const std::vector<LambRange> ranges = expected.Ranges(LambHypers());
        const float scale = 0.25f;
        ASSERT_TRUE(expected.Update(host_, ranges, from_sum, &scale).ok());
        TestDevice::Get()->InEveryOrder([&] {
          LambChunk got = make();
          ASSERT_TRUE(UpdateOnDevice(got, ranges, from_sum, scale).ok());
          ExpectSame(got, expected);
        });
      }
    }
  }
}

// More ranges than one launch takes, some of them empty.
TEST_P(LambOnGpu, TakesManySmallRanges) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 3 * cuda::LambPieces::kMost; ++i) {
    sizes.push_back(
        static_cast<int64_t>(random_() % 3 == 0 ? 0 : random_() % 200));
  }
  for (DType dtype : kAllTypes) {
    LambChunk expected(dtype, sizes, Shift(2), 6),
        got(dtype, sizes, Shift(2), 6);
    const std::vector<LambRange> ranges = got.Ranges(LambHypers());
    const float scale = 0.5f;
    ASSERT_TRUE(expected.Update(host_, ranges, false, &scale).ok());
    ASSERT_TRUE(UpdateOnDevice(got, ranges, false, scale).ok());
    ExpectSame(got, expected);
  }
}

// Gradients that are NaN or infinite leave no trace.
TEST_P(LambOnGpu, SkipsAStepWhoseScaleIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (DType dtype : kAllTypes) {
    for (float scale : {infinity, -infinity, infinity - infinity}) {
      const auto make = [&] {
        LambChunk chunk(dtype, {5000, 300}, Shift(1), 7);
        for (int64_t i = 0; i < chunk.size; i += 7) {
          chunk.payload.Set(i, scale);
        }
        return chunk;
      };
      LambChunk expected = make(), got = make();
      const LambChunk before = make();
      const std::vector<LambRange> ranges = got.Ranges(LambHypers());
      ASSERT_TRUE(expected.Update(host_, ranges, false, &scale).ok());
      ASSERT_TRUE(expected.m.SameBits(before.m));
      ASSERT_TRUE(UpdateOnDevice(got, ranges, false, scale).ok());
      ExpectSame(got, expected);
    }
  }
}

}  // namespace
}  // namespace castor::kernels
