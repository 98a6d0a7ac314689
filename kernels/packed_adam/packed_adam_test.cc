// The oracle is Adam's own kernel in fp32 (kernels/adam/adam_test.cc has its),
// and the scalar codes of base/state_format.h.
#include "kernels/packed_adam/packed_adam.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/philox.h"
#include "base/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/adam/adam.h"
#include "kernels/packed_adam/state_for_test.h"
#include "kernels/run.h"

namespace castor::kernels {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

class PackedAdamTest : public testing::TestWithParam<int> {
 protected:
  static std::vector<float> Decode(StateFormat format, const GuardedBuffer& x,
                                   int64_t size) {
    std::vector<float> values(size);
    DecodeStates(format, PackedState::Bytes(x), size, 0, size, values.data());
    return values;
  }
  // One range's new states from those before, element by element.
  void Expect(const PackedState& before, const PackedState& after,
              const PackedAdamRange& range, bool from_sum, float scale) {
    const int64_t size = before.payload.size();
    const PackedAdamArgs formats = before.Formats();
    std::vector<float> m = Decode(formats.m_format(), before.m, size);
    std::vector<float> v = Decode(formats.v_format(), before.v, size);
    PackedState wide(before.payload.dtype(), GetParam(), size, 0);
    wide.CopyFrom(before);
    const AdamRange whole = {range.begin, range.end, range.hyper};
    ASSERT_TRUE(kernels::Run(context_, AdamArgs{.payload = wide.payload.data(),
                                                .dtype = wide.payload.dtype(),
                                                .gradient_sum =
                                                    from_sum ? wide.sum.floats()
                                                             : nullptr,
                                                .master = wide.master.floats(),
                                                .m = m.data(),
                                                .v = v.data(),
                                                .grad_scale = &scale,
                                                .ranges = &whole,
                                                .num_ranges = 1})
                    .ok());
    for (int64_t i = range.begin; i < range.end; ++i) {
      ASSERT_EQ(std::bit_cast<uint64_t>(after.master[i]),
                std::bit_cast<uint64_t>(wide.master[i]))
          << i;
      ASSERT_EQ(after.payload[i], wide.payload[i]) << i;
    }
    for (const bool second : {false, true}) {
      const StateFormat format =
          second ? formats.v_format() : formats.m_format();
      const std::byte* const got =
          PackedState::Bytes(second ? after.v : after.m);
      const std::vector<float>& values = second ? v : m;
      for (int64_t i = range.begin; i < range.end; ++i) {
        const uint32_t word = RandomWord(
            range.key, static_cast<uint64_t>(range.first + i - range.begin));
        const uint32_t random = second ? word & 0xffffu : word >> 16;
        if (format == StateFormat::kBFloat16) {
          ASSERT_EQ(reinterpret_cast<const BFloat16*>(got)[i].bits,
                    RoundStochastically(values[i], random).bits)
              << i;
          continue;
        }
        uint32_t most = 0;
        const int64_t tile = i / kStateTile * kStateTile;
        for (int64_t j = tile; j < std::min(tile + kStateTile, range.end);
             ++j) {
          const uint32_t of_j = RandomWord(
              range.key, static_cast<uint64_t>(range.first + j - range.begin));
          most = std::max(
              most, MagnitudeBits(values[j],
                                  (second ? of_j & 0xffffu : of_j >> 16) << 4));
        }
        const TileScale scale_of = MakeTileScale(format, ScaleOfTile(most));
        float scale_got;
        std::memcpy(&scale_got, got + size + i / kStateTile * 4, 4);
        ASSERT_EQ(scale_got, scale_of.scale) << i;
        ASSERT_EQ(static_cast<uint8_t>(got[i]),
                  EncodeByte(format, scale_of, values[i], random << 4))
            << i << " " << values[i];
      }
    }
  }

  ThreadPool pool_{2};
  const ExecContext context_{&pool_};
  std::mt19937_64 random_{1};
};

INSTANTIATE_TEST_SUITE_P(Bits, PackedAdamTest, testing::Values(8, 16));

TEST_P(PackedAdamTest, IsAdamRoundedStochastically) {
  constexpr int64_t kSize = 64 * 40;
  for (const DType dtype : kTypes) {
    for (const bool from_sum : {false, true}) {
      for (const AdamHyper& hyper : PackedHypers()) {
        PackedState before(dtype, GetParam(), kSize, 0);
        before.Fill(random_);
        PackedState after(dtype, GetParam(), kSize, 1);
        after.CopyFrom(before);
        const float scale = 0.25f;
        const auto ranges = PackedRanges(hyper, kSize);
        ASSERT_TRUE(
            kernels::Run(context_, after.Args(from_sum, ranges, &scale)).ok());
        for (const PackedAdamRange& range : ranges) {
          ASSERT_NO_FATAL_FAILURE(
              Expect(before, after, range, from_sum, scale));
        }
        // What is in no range stays.
        for (const int64_t i : {0, 63, 650, 703}) {
          ASSERT_EQ(after.master[i], before.master[i]);
          const StateFormat format = after.Formats().m_format();
          ASSERT_EQ(Decode(format, after.m, kSize)[i],
                    Decode(format, before.m, kSize)[i]);
        }
      }
    }
  }
}

TEST_P(PackedAdamTest, DoesNotDependOnWhereAParameterIsCut) {
  constexpr int64_t kSize = 64 * 12;
  const float scale = 1;
  PackedState before(DType::kBFloat16, GetParam(), kSize, 0);
  before.Fill(random_);
  PackedState whole(DType::kBFloat16, GetParam(), kSize, 0);
  whole.CopyFrom(before);
  const AdamHyper hyper = PackedHypers()[0];
  const RandomKey key = {7, 8};
  ASSERT_TRUE(
      kernels::Run(
          context_,
          whole.Args(
              false,
              {{.begin = 0, .end = kSize - 5, .hyper = hyper, .key = key}},
              &scale))
          .ok());
  PackedState parts(DType::kBFloat16, GetParam(), kSize, 0);
  parts.CopyFrom(before);
  for (const auto& [begin, end] :
       {std::pair<int64_t, int64_t>{320, kSize - 5}, {0, 320}}) {
    ASSERT_TRUE(kernels::Run(context_, parts.Args(false,
                                                  {{.begin = begin,
                                                    .end = end,
                                                    .hyper = hyper,
                                                    .key = key,
                                                    .first = begin}},
                                                  &scale))
                    .ok());
  }
  EXPECT_TRUE(parts.SameBits(whole));
}

TEST_P(PackedAdamTest, GivesTheSameAside) {
  constexpr int64_t kSize = 64 * 20;
  for (const float scale : {0.5f, std::numeric_limits<float>::infinity()}) {
    for (const DType dtype : kTypes) {
      PackedState before(dtype, GetParam(), kSize, 0);
      before.Fill(random_);
      PackedState inside(dtype, GetParam(), kSize, 0);
      inside.CopyFrom(before);
      const auto ranges = PackedRanges(PackedHypers()[1], kSize);
      ASSERT_TRUE(
          kernels::Run(context_, inside.Args(false, ranges, &scale)).ok());
      PackedState aside(dtype, GetParam(), kSize, 0);
      aside.CopyFrom(before);
      PackedState source(dtype, GetParam(), kSize, 0);
      source.CopyFrom(before);
      // What is only written may hold anything.
      for (const PackedAdamRange& range : ranges) {
        std::fill(aside.master.floats() + range.begin,
                  aside.master.floats() + range.end, -1.0f);
        std::fill(PackedState::Bytes(aside.m) + range.begin,
                  PackedState::Bytes(aside.m) + range.end, std::byte{0x55});
      }
      PackedAdamArgs args = aside.Args(false, ranges, &scale);
      args.gradient = source.payload.data();
      args.from = {.master = source.master.floats(),
                   .m = PackedState::Bytes(source.m),
                   .v = PackedState::Bytes(source.v)};
      ASSERT_TRUE(kernels::Run(context_, args).ok());
      for (const PackedAdamRange& range : ranges) {
        for (const StateFormat format : {args.m_format(), args.v_format()}) {
          const bool second = format == args.v_format() && GetParam() == 8;
          const auto a = Decode(format, second ? aside.v : aside.m, kSize);
          const auto b = Decode(format, second ? inside.v : inside.m, kSize);
          for (int64_t i = range.begin; i < range.end; ++i) {
            ASSERT_EQ(a[i], b[i]) << i;
            ASSERT_EQ(aside.master[i], inside.master[i]) << i;
            ASSERT_EQ(aside.payload[i], inside.payload[i]) << i;
          }
        }
      }
    }
  }
}

TEST_P(PackedAdamTest, SaysWhatIsNotFinite) {
  constexpr int64_t kSize = 128;
  const float scale = 1;
  for (const int64_t at : {int64_t{5}, int64_t{100}, int64_t{127}}) {
    PackedState state(DType::kFloat32, GetParam(), kSize, 0);
    state.Fill(random_);
    const std::vector<PackedAdamRange> ranges = {
        {.begin = 0, .end = 120, .hyper = {.eps = 0, .step = 2}}};
    for (int64_t i = 0; i < kSize; ++i) state.payload.Set(i, 1e-3);
    state.payload.Set(at, std::numeric_limits<double>::infinity());
    PackedAdamArgs args = state.Args(false, ranges, &scale);
    int32_t not_finite = 0;
    args.not_finite = &not_finite;
    ASSERT_TRUE(kernels::Run(context_, args).ok());
    EXPECT_EQ(not_finite, at < 120 ? 1 : 0) << at;
  }
}

// 10,000 steps of elements that seldom have a gradient, of tiny ones and of a
// large one in one tile: no moment is stuck, and none grows.
TEST_P(PackedAdamTest, NoStateIsStuckOrGrows) {
  constexpr int64_t kSize = kStateTile;
  constexpr int kSteps = 10'000;
  PackedState state(DType::kFloat32, GetParam(), kSize, 0);
  const std::vector<float> zeros(kSize);
  const PackedAdamArgs formats = state.Formats();
  for (int64_t i = 0; i < kSize; ++i) state.master.Set(i, 0);
  EncodeStates(formats.m_format(), zeros.data(), PackedState::Bytes(state.m),
               kSize, 0, kSize);
  EncodeStates(formats.v_format(), zeros.data(), PackedState::Bytes(state.v),
               kSize, 0, kSize);
  std::vector<float> master(kSize), m(kSize), v(kSize);
  const float scale = 1;
  std::normal_distribution<double> normal;
  double v_sum = 0, v_wide_sum = 0;
  for (int step = 1; step <= kSteps; ++step) {
    std::vector<float> g(kSize);
    for (int64_t i = 0; i < kSize; ++i) {
      const double draw = normal(random_);
      g[i] = static_cast<float>(i % 4 == 0   ? 1e-12 * draw
                                : i % 4 == 1 ? (step % 100 == 0 ? draw : 0)
                                : i % 4 == 2 ? draw
                                             : 0);
      state.payload.Set(i, g[i]);
    }
    const AdamHyper hyper = {.lr = 1e-4, .weight_decay = 0, .step = step};
    const std::vector<PackedAdamRange> ranges = {
        {.begin = 0,
         .end = kSize,
         .hyper = hyper,
         .key = {1, static_cast<uint64_t>(step)}}};
    ASSERT_TRUE(kernels::Run(context_, state.Args(false, ranges, &scale)).ok());
    const AdamRange wide = {0, kSize, hyper};
    ASSERT_TRUE(kernels::Run(context_, AdamArgs{.payload = g.data(),
                                                .master = master.data(),
                                                .m = m.data(),
                                                .v = v.data(),
                                                .grad_scale = &scale,
                                                .ranges = &wide,
                                                .num_ranges = 1})
                    .ok());
    if (step < kSteps / 2) continue;
    const auto now = Decode(formats.v_format(), state.v, kSize);
    for (int64_t i = 0; i < kSize; ++i) {
      if (i % 4 == 3) {
        ASSERT_EQ(now[i], 0);
        ASSERT_EQ(state.master[i], 0);
      } else {
        ASSERT_GT(now[i], 0) << step << " " << i;
      }
      // The mean over many steps and elements is that of fp32.
      if (i % 4 == 1 || i % 4 == 2) {
        v_sum += now[i];
        v_wide_sum += v[i];
      }
    }
  }
  EXPECT_NEAR(v_sum / v_wide_sum, 1, 0.05);
  // Parameters have gone as far as in fp32, in the mean.
  double moved = 0, moved_wide = 0;
  for (int64_t i = 1; i < kSize; ++i) {
    if (i % 4 != 1 && i % 4 != 2) continue;
    moved += std::fabs(state.master[i]);
    moved_wide += std::fabs(master[i]);
    EXPECT_LT(std::fabs(state.master[i]), 0.5);
  }
  EXPECT_NEAR(moved / moved_wide, 1, 0.25);
}

TEST_P(PackedAdamTest, RefusesWhatItCannotTake) {
  PackedState state(DType::kFloat32, GetParam(), 128, 0);
  const float scale = 1;
  const auto refused = [&](PackedAdamRange range) {
    return !kernels::Run(context_, state.Args(false, {range}, &scale)).ok();
  };
  EXPECT_TRUE(refused({.begin = 4, .end = 64}));
  EXPECT_TRUE(refused({.begin = 64, .end = 32}));
  EXPECT_TRUE(refused({.begin = 0, .end = 129}));
  EXPECT_TRUE(refused({.begin = 0, .end = 64, .first = 3}));
  PackedAdamArgs args = state.Args(false, {{.begin = 0, .end = 64}}, &scale);
  args.moment_bits = 4;
  EXPECT_FALSE(args.Check().ok());
}

}  // namespace
}  // namespace castor::kernels
