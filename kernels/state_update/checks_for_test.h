// The tests that every kernel of the host must pass whose states have formats
// (state_update.h). Args is the struct of its arguments; each of its states has
// `bits` bits, 0 if it has none.
#ifndef CASTOR_KERNELS_STATE_UPDATE_CHECKS_FOR_TEST_H_
#define CASTOR_KERNELS_STATE_UPDATE_CHECKS_FOR_TEST_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "device/device.h"
#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/state_update/state_for_test.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {

template <class Args>
void ExpectNoCutOfAParameterToShow(const ExecContext& context, int bits,
                                   const typename Args::Hyper& hyper,
                                   StateFormat master = StateFormat::kFloat32) {
  using Range = StateRange<typename Args::Hyper>;
  constexpr int64_t kSize = 64 * 12;
  const float scale = 1;
  std::mt19937_64 random(1);
  StatesForTest before(DType::kBFloat16, Args::kStates, bits, kSize, 0, master);
  before.Fill(random);
  StatesForTest whole(DType::kBFloat16, Args::kStates, bits, kSize, 0, master);
  whole.CopyFrom(before);
  const auto update = [&](StatesForTest& states, int64_t begin, int64_t end) {
    const std::vector<Range> ranges = {{.begin = begin,
                                        .end = end,
                                        .hyper = hyper,
                                        .key = {7, 8},
                                        .first = begin}};
    return Run(context,
               ArgsForTest<Args>(states.Arrays(false, &scale), ranges));
  };
  ASSERT_TRUE(update(whole, 0, kSize - 5).ok());
  StatesForTest parts(DType::kBFloat16, Args::kStates, bits, kSize, 0, master);
  parts.CopyFrom(before);
  ASSERT_TRUE(update(parts, 320, kSize - 5).ok());
  ASSERT_TRUE(update(parts, 0, 320).ok());
  EXPECT_TRUE(parts.SameBits(whole));
}

template <class Args>
void ExpectTheSameAside(const ExecContext& context, int bits,
                        const typename Args::Hyper& hyper,
                        StateFormat master = StateFormat::kFloat32) {
  constexpr int64_t kSize = 64 * 20;
  std::mt19937_64 random(2);
  for (const float scale : {0.5f, std::numeric_limits<float>::infinity()}) {
    for (const DType dtype :
         {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      if (!CanHave(dtype, master)) continue;
      StatesForTest source(dtype, Args::kStates, bits, kSize, 0, master);
      source.Fill(random);
      StatesForTest inside(dtype, Args::kStates, bits, kSize, 0, master);
      StatesForTest aside(dtype, Args::kStates, bits, kSize, 0, master);
      inside.CopyFrom(source);
      aside.CopyFrom(source);
      const auto ranges = RangesForTest(hyper, kSize);
      ASSERT_TRUE(
          Run(context, ArgsForTest<Args>(inside.Arrays(false, &scale), ranges))
              .ok());
      // Arrays that are only written may hold anything.
      for (const auto& range : ranges) {
        const int64_t bytes = ElementBytes(master);
        std::fill(StatesForTest::Bytes(aside.master) + bytes * range.begin,
                  StatesForTest::Bytes(aside.master) + bytes * range.end,
                  std::byte{0x55});
        for (GuardedBuffer& state : aside.states) {
          std::fill(StatesForTest::Bytes(state) + range.begin,
                    StatesForTest::Bytes(state) + range.end, std::byte{0x55});
        }
      }
      StateArrays arrays = aside.Arrays(false, &scale);
      arrays.gradient = source.payload.data();
      arrays.from.master = source.master.data();
      for (size_t i = 0; i < source.states.size(); ++i) {
        arrays.from.states[i] = StatesForTest::Bytes(source.states[i]);
      }
      ASSERT_TRUE(Run(context, ArgsForTest<Args>(arrays, ranges)).ok());
      const std::vector<float> mine = aside.Masters();
      const std::vector<float> expected = inside.Masters();
      for (const auto& range : ranges) {
        for (int64_t i = range.begin; i < range.end; ++i) {
          ASSERT_EQ(mine[i], expected[i]) << i;
          ASSERT_EQ(aside.payload[i], inside.payload[i]) << i;
        }
        for (size_t k = 0; k < aside.states.size(); ++k) {
          const auto a = aside.State(k), b = inside.State(k);
          for (int64_t i = range.begin; i < range.end; ++i) {
            ASSERT_EQ(a[i], b[i]) << k << " " << i;
          }
        }
      }
    }
  }
}

// Tests every instruction set and type, with gradients in their own place and
// summed: oracle(hyper, g, p, state) computes an element's new values from the
// old ones and the scaled gradient, in the order of roundings that the kernel
// promises.
template <class Args, class Oracle>
void ExpectTheOraclesBits(const ExecContext& context, int bits,
                          const std::vector<typename Args::Hyper>& hypers,
                          const Oracle& oracle) {
  static_assert(Args::kStates == 1);
  constexpr int64_t kSize = 64 * 40;
  const float scale = 0.37f;
  std::mt19937_64 random(4);
  ForEachTarget([&](const char* target) {
    for (const DType dtype :
         {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (const bool from_sum : {false, true}) {
        for (size_t h = 0; h < hypers.size(); ++h) {
          // Each in turn, where parameters can have it.
          StateFormat master = kMasterFormatsForTest[h % 3];
          if (!CanHave(dtype, master)) master = StateFormat::kFloat32;
          SCOPED_TRACE(testing::Message()
                       << target << " " << DTypeName(dtype) << " sum "
                       << from_sum << " hyper " << h);
          StatesForTest before(dtype, 1, bits, kSize, 0, master);
          before.Fill(random);
          StatesForTest after(dtype, 1, bits, kSize, 1, master);
          after.CopyFrom(before);
          const auto ranges = RangesForTest(hypers[h], kSize);
          ASSERT_TRUE(Run(context, ArgsForTest<Args>(
                                       after.Arrays(from_sum, &scale), ranges))
                          .ok());
          std::vector<float> state(kSize);
          if (bits != 0) state = before.State(0);
          const GuardedBuffer& gradient =
              from_sum ? before.sum : before.payload;
          std::vector<float> p = before.Masters();
          for (const auto& range : ranges) {
            for (int64_t i = range.begin; i < range.end; ++i) {
              oracle(range.hyper, static_cast<float>(gradient[i]) * scale, p[i],
                     state[i]);
            }
            ASSERT_NO_FATAL_FAILURE(after.ExpectMastersRounded(range, p));
            if (bits == 0) continue;
            ASSERT_NO_FATAL_FAILURE(after.ExpectRounded(range, 0, state));
          }
          // Elements that are in no range stay.
          for (const int64_t i : {0, 63, 650, 703}) {
            ASSERT_EQ(after.Masters()[i], before.Masters()[i]);
            ASSERT_EQ(after.payload[i], before.payload[i]);
          }
        }
      }
    }
  });
}

// Tests that an infinite gradient is reported, unless it lies behind the
// range's end.
template <class Args>
void ExpectToSayWhatIsNotFinite(const ExecContext& context, int bits,
                                const typename Args::Hyper& hyper) {
  using Range = StateRange<typename Args::Hyper>;
  constexpr int64_t kSize = 128;
  const float scale = 1;
  std::mt19937_64 random(3);
  for (const int64_t at : {int64_t{5}, int64_t{100}, int64_t{127}}) {
    StatesForTest states(DType::kFloat32, Args::kStates, bits, kSize, 0);
    states.Fill(random);
    for (int64_t i = 0; i < kSize; ++i) states.payload.Set(i, 1e-3);
    states.payload.Set(at, std::numeric_limits<double>::infinity());
    StateArrays arrays = states.Arrays(false, &scale);
    int32_t not_finite = 0;
    arrays.not_finite = &not_finite;
    const std::vector<Range> ranges = {
        {.begin = 0, .end = 120, .hyper = hyper}};
    ASSERT_TRUE(Run(context, ArgsForTest<Args>(arrays, ranges)).ok());
    EXPECT_EQ(not_finite, at < 120 ? 1 : 0) << at;
  }
}

template <class Args>
void ExpectToRefuseWhatItCannotTake(const ExecContext& context, int bits,
                                    const typename Args::Hyper& hyper) {
  using Range = StateRange<typename Args::Hyper>;
  StatesForTest states(DType::kFloat32, Args::kStates, bits, 128, 0);
  const float scale = 1;
  const auto refused = [&](Range range) {
    range.hyper = hyper;
    const std::vector<Range> ranges = {range};
    return absl::IsInvalidArgument(
        Run(context, ArgsForTest<Args>(states.Arrays(false, &scale), ranges)));
  };
  EXPECT_TRUE(refused({.begin = 4, .end = 64}));
  EXPECT_TRUE(refused({.begin = 64, .end = 32}));
  EXPECT_TRUE(refused({.begin = 0, .end = 129}));
  EXPECT_TRUE(refused({.begin = 0, .end = 64, .first = 3}));
  const std::vector<Range> ranges = {{.begin = 0, .end = 64, .hyper = hyper}};
  const auto status = [&](const StateArrays& arrays) {
    return ArgsForTest<Args>(arrays, ranges).Check();
  };
  EXPECT_TRUE(status(states.Arrays(false, &scale)).ok());
  StateArrays arrays = states.Arrays(false, &scale);
  arrays.bits = 4;
  EXPECT_FALSE(status(arrays).ok());
  EXPECT_FALSE(status(states.Arrays(false, nullptr)).ok());
  arrays = states.Arrays(true, &scale);
  arrays.gradient = states.payload.data();
  EXPECT_FALSE(status(arrays).ok());
  // Masters of parameters in fp32 are fp32.
  arrays = states.Arrays(false, &scale);
  arrays.master_format = StateFormat::kSplit;
  EXPECT_FALSE(status(arrays).ok());
  arrays.dtype = DType::kBFloat16;
  EXPECT_TRUE(status(arrays).ok());
  arrays.master_format = StateFormat::kSigned8;
  EXPECT_FALSE(status(arrays).ok());
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_STATE_UPDATE_CHECKS_FOR_TEST_H_
