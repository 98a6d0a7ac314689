// Adafactor on the GPU gives the host's bits: a chunk may live on either side,
// and its shards on both (promise P1).
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/adafactor/adafactor.h"
#include "kernels/adafactor/adafactor_program.h"
#include "kernels/adafactor/chunk_for_test.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

// A step whose arrays are on the device and whose margins the host updates.
absl::Status UpdateOnDevice(AdafactorChunk& chunk, bool from_sum, bool moment,
                            float scale) {
  absl::Status status;
  const std::vector<AdafactorRange>& ranges = chunk.ranges;
  {
    OnDevice on;
    AdafactorMarginsArgs args = chunk.MarginsArgs(ranges, from_sum, nullptr);
    args.payload = on.Out(chunk.payload);
    const float* const sum = on.OutFloats(chunk.sum);
    args.gradient_sum = from_sum ? sum : nullptr;
    args.grad_scale = on.In(std::vector<float>{scale});
    ExactSum* const margins = on.In(chunk.margins);
    args.sums = margins;
    double* const values = on.In(std::vector<double>(chunk.margins.size()));
    status.Update(kernels::Run(on.context(), args));
    status.Update(kernels::Run(
        on.context(),
        ExactSumValuesArgs{.count = static_cast<int64_t>(chunk.margins.size()),
                           .sums = margins,
                           .values = values}));
    status.Update(on.Finish());
    TestDevice::Get()->ToHost(
        chunk.margins.data(), margins,
        static_cast<int64_t>(chunk.margins.size() * sizeof(ExactSum)));
  }
  if (!status.ok()) return status;
  if (std::isfinite(scale)) chunk.UpdateMargins();
  OnDevice on;
  AdafactorMeasureArgs measure = chunk.MeasureArgs(ranges, from_sum, nullptr);
  AdafactorApplyArgs apply = chunk.ApplyArgs(ranges, from_sum, moment, nullptr);
  const int64_t sums = static_cast<int64_t>(chunk.exact.size());
  measure.payload = apply.payload = on.Out(chunk.payload);
  const float* const sum = on.OutFloats(chunk.sum);
  measure.gradient_sum = apply.gradient_sum = from_sum ? sum : nullptr;
  measure.master = apply.master = on.OutFloats(chunk.master);
  float* const m = on.OutFloats(chunk.m);
  apply.m = moment ? m : nullptr;
  measure.factors = apply.factors = on.In(chunk.factors);
  measure.grad_scale = apply.grad_scale = on.In(std::vector<float>{scale});
  measure.sums = on.In(chunk.exact);
  double* const values = on.In(chunk.values);
  apply.sums = values;
  status.Update(kernels::Run(on.context(), measure));
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

template <class T>
void ExpectSameNumbers(const std::vector<T>& got,
                       const std::vector<T>& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(got[i], expected[i]) << what << " " << i;
  }
}

// NaNs are equal, whichever they are.
void ExpectSame(const AdafactorChunk& got, const AdafactorChunk& expected) {
  ExpectSame(got.payload, expected.payload, "payload");
  ExpectSame(got.sum, expected.sum, "sum");
  ExpectSame(got.master, expected.master, "master");
  ExpectSame(got.m, expected.m, "m");
  ExpectSameNumbers(got.kept, expected.kept, "kept");
  ExpectSameNumbers(got.factors, expected.factors, "factors");
  ExpectSameNumbers(got.values, expected.values, "values");
}

using AdafactorOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Arrays, AdafactorOnGpu, testing::Bool(),
                         AlignmentName);

TEST_P(AdafactorOnGpu, GivesTheHostsBits) {
  const std::vector<AdafactorShape> shapes = {
      {1, 1, 0}, {1, 70, 0},  {1, 8, 8},   {1, 200, 150},
      {4, 7, 5}, {1, 2, 900}, {1, 400, 1}, {1, 3000, 0}};
  for (DType dtype : kAllTypes) {
    for (bool from_sum : {false, true}) {
      for (bool odd : {false, true}) {
        const auto make = [&] {
          AdafactorChunk chunk(dtype, shapes, Shift(1), 5);
          // Denormals, infinities and NaNs in one of the parameters.
          const float kOdd[] = {0x1p-140f, -0x1p-149f, 0x1p127f,
                                std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()};
          for (int64_t i = 0; odd && i < 64; ++i) {
            chunk.payload.Set(chunk.ranges[2].begin + i, kOdd[i % 5]);
            chunk.sum.Set(chunk.ranges[2].begin + i, kOdd[i % 4]);
            chunk.payload.Set(chunk.ranges[4].begin + i, kOdd[i % 2]);
          }
          return chunk;
        };
        AdafactorChunk expected = make();
        const float scale = 0.25f;
        ASSERT_TRUE(
            expected.Update(host_, expected.ranges, from_sum, odd, &scale)
                .ok());
        TestDevice::Get()->InEveryOrder([&] {
          AdafactorChunk got = make();
          ASSERT_TRUE(UpdateOnDevice(got, from_sum, odd, scale).ok());
          ExpectSame(got, expected);
        });
      }
    }
  }
}

// More ranges than one launch takes.
TEST_P(AdafactorOnGpu, TakesManySmallRanges) {
  std::vector<AdafactorShape> shapes;
  for (int i = 0; i < 3 * cuda::AdafactorPieces::kMost; ++i) {
    shapes.push_back({1, static_cast<int64_t>(1 + random_() % 20),
                      static_cast<int64_t>(random_() % 20)});
  }
  for (DType dtype : kAllTypes) {
    AdafactorChunk expected(dtype, shapes, Shift(2), 6),
        got(dtype, shapes, Shift(2), 6);
    const float scale = 0.5f;
    ASSERT_TRUE(
        expected.Update(host_, expected.ranges, false, true, &scale).ok());
    ASSERT_TRUE(UpdateOnDevice(got, false, true, scale).ok());
    ExpectSame(got, expected);
  }
}

// Gradients that are NaN or infinite leave no trace.
TEST_P(AdafactorOnGpu, SkipsAStepWhoseScaleIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (DType dtype : kAllTypes) {
    for (float scale : {infinity, -infinity, infinity - infinity}) {
      const int64_t shift = Shift(1);
      AdafactorChunk chunk(dtype, {{1, 50, 100}, {1, 300, 0}}, shift, 7);
      const AdafactorChunk before(dtype, chunk.shapes, shift, 7);
      for (int64_t i = 0; i < chunk.size; i += 7) chunk.payload.Set(i, scale);
      ASSERT_TRUE(UpdateOnDevice(chunk, false, true, scale).ok());
      ExpectSame(chunk.master, before.master, "master");
      ExpectSame(chunk.m, before.m, "m");
      ExpectSameNumbers(chunk.values, before.values, "values");
      for (const ExactSum& sum : chunk.margins) EXPECT_EQ(sum.Value(), 0);
    }
  }
}

}  // namespace
}  // namespace castor::kernels
