// The tests that every such kernel (state_update.h) must pass on a GPU: an
// optimizer chunk may live on either side, so both must have the same bits
// (promise P1).
#ifndef CASTOR_KERNELS_STATE_UPDATE_GPU_CHECKS_FOR_TEST_H_
#define CASTOR_KERNELS_STATE_UPDATE_GPU_CHECKS_FOR_TEST_H_

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/state_update/state_for_test.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {

template <class Args>
absl::Status UpdateOnDevice(
    StatesForTest& s, bool from_sum,
    const std::vector<StateRange<typename Args::Hyper>>& ranges, float scale) {
  OnDevice on;
  StateArrays arrays = s.Arrays(from_sum, nullptr);
  arrays.payload = on.Out(s.payload);
  float* const sum = on.OutFloats(s.sum);
  arrays.gradient_sum = from_sum ? sum : nullptr;
  arrays.master = on.Out(s.master);
  for (size_t i = 0; i < s.states.size(); ++i) {
    arrays.states[i] = static_cast<std::byte*>(on.Out(s.states[i]));
  }
  arrays.grad_scale = on.In(std::vector<float>{scale});
  const absl::Status status =
      Run(on.context(), ArgsForTest<Args>(arrays, ranges));
  const absl::Status finished = on.Finish();
  return status.ok() ? finished : status;
}

template <class Args>
void ExpectTheHostsBits(const ExecContext& host, int bits, int64_t shift,
                        const std::vector<typename Args::Hyper>& hypers,
                        StateFormat master = StateFormat::kFloat32) {
  constexpr int64_t kSize = 64 * 70;
  std::mt19937_64 random(11);
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (!CanHave(dtype, master)) continue;
    for (const bool from_sum : {false, true}) {
      for (const auto& hyper : hypers) {
        for (const float scale :
             {0.25f, std::numeric_limits<float>::infinity()}) {
          StatesForTest expected(dtype, Args::kStates, bits, kSize, shift,
                                 master);
          expected.Fill(random);
          StatesForTest got(dtype, Args::kStates, bits, kSize, shift, master);
          got.CopyFrom(expected);
          const auto ranges = RangesForTest(hyper, kSize);
          ASSERT_TRUE(Run(host, ArgsForTest<Args>(
                                    expected.Arrays(from_sum, &scale), ranges))
                          .ok());
          const absl::Status status =
              UpdateOnDevice<Args>(got, from_sum, ranges, scale);
          ASSERT_TRUE(status.ok()) << status;
          ASSERT_TRUE(got.SameBits(expected))
              << bits << " " << DTypeName(dtype) << " " << scale;
        }
      }
    }
  }
}

// Tests more ranges than one launch takes, in every order of threads.
template <class Args, class Pieces>
void ExpectManySmallRangesToBeTaken(
    const ExecContext& host, int bits, int64_t shift,
    const std::vector<typename Args::Hyper>& hypers,
    StateFormat master = StateFormat::kFloat32) {
  constexpr int64_t kSize = 64 * 150;
  std::mt19937_64 random(12);
  std::vector<StateRange<typename Args::Hyper>> ranges;
  for (int64_t begin = 0; begin + 192 < kSize;) {
    const int64_t end = begin + static_cast<int64_t>(random() % 190);
    ranges.push_back({.begin = begin,
                      .end = end,
                      .hyper = hypers[random() % hypers.size()],
                      .key = {1, random()},
                      .first = static_cast<int64_t>(random() % 4) * 64});
    begin = (end + 63) / 64 * 64;
  }
  ASSERT_GT(ranges.size(), size_t{2} * Pieces::kMost);
  StatesForTest before(DType::kBFloat16, Args::kStates, bits, kSize, shift,
                       master);
  before.Fill(random);
  StatesForTest expected(DType::kBFloat16, Args::kStates, bits, kSize, shift,
                         master);
  expected.CopyFrom(before);
  const float scale = 0.5f;
  ASSERT_TRUE(
      Run(host, ArgsForTest<Args>(expected.Arrays(false, &scale), ranges))
          .ok());
  TestDevice::Get()->InEveryOrder([&] {
    StatesForTest got(DType::kBFloat16, Args::kStates, bits, kSize, shift,
                      master);
    got.CopyFrom(before);
    const absl::Status status = UpdateOnDevice<Args>(got, false, ranges, scale);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(got.SameBits(expected));
  });
}

template <class Args>
void ExpectBothToRefuseAlike(const ExecContext& host, int bits) {
  StatesForTest s(DType::kFloat32, Args::kStates, bits, 64, 0);
  const float scale = 1;
  const std::vector<StateRange<typename Args::Hyper>> bad = {
      {.begin = 4, .end = 20}};
  const Args args = ArgsForTest<Args>(s.Arrays(false, &scale), bad);
  EXPECT_FALSE(Run(host, args).ok());
  EXPECT_EQ(Run(TestDevice::Get()->context(), args), Run(host, args));
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_STATE_UPDATE_GPU_CHECKS_FOR_TEST_H_
