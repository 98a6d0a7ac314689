// Adam with packed moments on the GPU gives the host's bits: an optimizer chunk
// may live on either side (promise P1).
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/packed_adam/packed_adam.h"
#include "kernels/packed_adam/packed_adam_program.h"
#include "kernels/packed_adam/state_for_test.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

absl::Status RunOnDevice(PackedState& s, bool from_sum,
                         const std::vector<PackedAdamRange>& ranges,
                         float scale) {
  OnDevice on;
  PackedAdamArgs args = s.Args(from_sum, ranges, nullptr);
  args.payload = on.Out(s.payload);
  float* const sum = on.OutFloats(s.sum);
  args.gradient_sum = from_sum ? sum : nullptr;
  args.master = on.OutFloats(s.master);
  args.m = reinterpret_cast<std::byte*>(on.OutFloats(s.m));
  args.v = reinterpret_cast<std::byte*>(on.OutFloats(s.v));
  args.grad_scale = on.In(std::vector<float>{scale});
  const absl::Status status = kernels::Run(on.context(), args);
  const absl::Status finished = on.Finish();
  return status.ok() ? finished : status;
}

using PackedAdamOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Arrays, PackedAdamOnGpu, testing::Bool(),
                         AlignmentName);

TEST_P(PackedAdamOnGpu, GivesTheHostsBits) {
  constexpr int64_t kSize = 64 * 70;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int bits : {8, 16}) {
    for (const DType dtype : kAllTypes) {
      for (const bool from_sum : {false, true}) {
        for (const AdamHyper& hyper : PackedHypers()) {
          for (const float scale : {0.25f, infinity}) {
            PackedState before(dtype, bits, kSize, Shift(1));
            before.Fill(random_);
            PackedState expected(dtype, bits, kSize, Shift(1));
            PackedState got(dtype, bits, kSize, Shift(1));
            expected.CopyFrom(before);
            got.CopyFrom(before);
            const auto ranges = PackedRanges(hyper, kSize);
            ASSERT_TRUE(
                kernels::Run(host_, expected.Args(from_sum, ranges, &scale))
                    .ok());
            const absl::Status status =
                RunOnDevice(got, from_sum, ranges, scale);
            ASSERT_TRUE(status.ok()) << status;
            ASSERT_TRUE(got.SameBits(expected))
                << bits << " " << DTypeName(dtype) << " " << scale;
          }
        }
      }
    }
  }
}

// More ranges than one launch takes, in every order of threads.
TEST_P(PackedAdamOnGpu, TakesManySmallRanges) {
  constexpr int64_t kSize = 64 * 150;
  std::vector<PackedAdamRange> ranges;
  for (int64_t begin = 0; begin + 192 < kSize;) {
    const int64_t end = begin + static_cast<int64_t>(random_() % 190);
    ranges.push_back({.begin = begin,
                      .end = end,
                      .hyper = PackedHypers()[random_() % 4],
                      .key = {1, random_()},
                      .first = static_cast<int64_t>(random_() % 4) * 64});
    begin = (end + 63) / 64 * 64;
  }
  ASSERT_GT(ranges.size(), size_t{2} * cuda::PackedAdamPieces::kMost);
  for (const int bits : {8, 16}) {
    PackedState before(DType::kBFloat16, bits, kSize, Shift(1));
    before.Fill(random_);
    PackedState expected(DType::kBFloat16, bits, kSize, Shift(1));
    expected.CopyFrom(before);
    const float scale = 0.5f;
    ASSERT_TRUE(kernels::Run(host_, expected.Args(false, ranges, &scale)).ok());
    TestDevice::Get()->InEveryOrder([&] {
      PackedState got(DType::kBFloat16, bits, kSize, Shift(1));
      got.CopyFrom(before);
      const absl::Status status = RunOnDevice(got, false, ranges, scale);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_TRUE(got.SameBits(expected));
    });
  }
}

TEST_P(PackedAdamOnGpu, RefusesWhatTheHostRefuses) {
  PackedState s(DType::kFloat32, 8, 64, 0);
  const float scale = 1;
  const std::vector<PackedAdamRange> bad = {{.begin = 4, .end = 20}};
  EXPECT_EQ(
      kernels::Run(TestDevice::Get()->context(), s.Args(false, bad, &scale)),
      kernels::Run(host_, s.Args(false, bad, &scale)));
}

}  // namespace
}  // namespace castor::kernels
