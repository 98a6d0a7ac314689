// The oracle is Adam's own kernel in fp32 (kernels/adam/adam_test.cc has its),
// and the scalar codes of base/state_format.h.
#include "kernels/packed_adam/packed_adam.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include "base/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/adam/adam.h"
#include "kernels/packed_adam/hypers_for_test.h"
#include "kernels/run.h"
#include "kernels/state_update/checks_for_test.h"
#include "kernels/state_update/state_for_test.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

// Bits of a moment, and the master's format.
class PackedAdamTest
    : public testing::TestWithParam<std::tuple<int, StateFormat>> {
 protected:
  static int bits() { return std::get<0>(GetParam()); }
  static StateFormat master() { return std::get<1>(GetParam()); }
  static StatesForTest States(DType dtype, int64_t size, int64_t shift = 0) {
    return StatesForTest(dtype, 2, bits(), size, shift, master());
  }
  // One range's new states from those before, element by element.
  void Expect(const StatesForTest& before, const StatesForTest& after,
              const PackedAdamRange& range, bool from_sum, float scale) {
    std::vector<float> m = before.State(0), v = before.State(1);
    std::vector<float> p = before.Masters();
    StatesForTest wide = States(before.payload.dtype(), before.payload.size());
    wide.CopyFrom(before);
    const AdamRange whole = {range.begin, range.end, range.hyper};
    ASSERT_TRUE(kernels::Run(context_, AdamArgs{.payload = wide.payload.data(),
                                                .dtype = wide.payload.dtype(),
                                                .gradient_sum =
                                                    from_sum ? wide.sum.floats()
                                                             : nullptr,
                                                .master = p.data(),
                                                .m = m.data(),
                                                .v = v.data(),
                                                .grad_scale = &scale,
                                                .ranges = &whole,
                                                .num_ranges = 1})
                    .ok());
    after.ExpectMastersRounded(range, p);
    after.ExpectRounded(range, 0, m);
    after.ExpectRounded(range, 1, v);
  }

  ThreadPool pool_{2};
  const ExecContext context_{&pool_};
  std::mt19937_64 random_{1};
};

INSTANTIATE_TEST_SUITE_P(
    Formats, PackedAdamTest,
    testing::Combine(testing::Values(8, 16, 32),
                     testing::ValuesIn(kMasterFormatsForTest)));

TEST_P(PackedAdamTest, IsAdamRoundedStochasticallyOnEveryTarget) {
  constexpr int64_t kSize = 64 * 40;
  ForEachTarget([&](const char* target) {
    SCOPED_TRACE(target);
    for (const DType dtype :
         {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      if (!CanHave(dtype, master())) continue;
      for (const bool from_sum : {false, true}) {
        for (const AdamHyper& hyper : PackedHypers()) {
          StatesForTest before = States(dtype, kSize);
          before.Fill(random_);
          StatesForTest after = States(dtype, kSize, 1);
          after.CopyFrom(before);
          const float scale = 0.25f;
          const auto ranges = RangesForTest(hyper, kSize);
          ASSERT_TRUE(kernels::Run(context_,
                                   ArgsForTest<PackedAdamArgs>(
                                       after.Arrays(from_sum, &scale), ranges))
                          .ok());
          for (const PackedAdamRange& range : ranges) {
            ASSERT_NO_FATAL_FAILURE(
                Expect(before, after, range, from_sum, scale));
          }
          // Elements that are in no range stay.
          for (const int64_t i : {0, 63, 650, 703}) {
            ASSERT_EQ(after.Masters()[i], before.Masters()[i]);
            ASSERT_EQ(after.State(0)[i], before.State(0)[i]);
          }
        }
      }
    }
  });
}

TEST_P(PackedAdamTest, DoesNotDependOnWhereAParameterIsCut) {
  ExpectNoCutOfAParameterToShow<PackedAdamArgs>(context_, bits(),
                                                PackedHypers()[0], master());
}

TEST_P(PackedAdamTest, GivesTheSameAside) {
  ExpectTheSameAside<PackedAdamArgs>(context_, bits(), PackedHypers()[1],
                                     master());
}

// Where eps is 0, elements behind a range's end would become 0 / 0.
TEST_P(PackedAdamTest, SaysWhatIsNotFinite) {
  ExpectToSayWhatIsNotFinite<PackedAdamArgs>(context_, bits(),
                                             {.eps = 0, .step = 2});
}

// 10,000 steps of elements that seldom have a gradient, of tiny ones and of a
// large one in one tile: no moment is stuck, and none grows.
TEST_P(PackedAdamTest, NoStateIsStuckOrGrows) {
  constexpr int64_t kSize = kStateTile;
  constexpr int kSteps = 10'000;
  const DType dtype =
      master() == StateFormat::kFloat32 ? DType::kFloat32 : DType::kBFloat16;
  StatesForTest state = States(dtype, kSize);
  const std::vector<float> zeros(kSize);
  EncodeStates(master(), zeros.data(), StatesForTest::Bytes(state.master),
               kSize, 0, kSize);
  state.SetState(0, zeros);
  state.SetState(1, zeros);
  std::vector<float> wide_master(kSize), m(kSize), v(kSize);
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
      g[i] = static_cast<float>(state.payload[i]);
    }
    const AdamHyper hyper = {.lr = 1e-4, .weight_decay = 0, .step = step};
    const std::vector<PackedAdamRange> ranges = {
        {.begin = 0,
         .end = kSize,
         .hyper = hyper,
         .key = {1, static_cast<uint64_t>(step)}}};
    ASSERT_TRUE(kernels::Run(context_, ArgsForTest<PackedAdamArgs>(
                                           state.Arrays(false, &scale), ranges))
                    .ok());
    const AdamRange wide = {0, kSize, hyper};
    ASSERT_TRUE(kernels::Run(context_, AdamArgs{.payload = g.data(),
                                                .master = wide_master.data(),
                                                .m = m.data(),
                                                .v = v.data(),
                                                .grad_scale = &scale,
                                                .ranges = &wide,
                                                .num_ranges = 1})
                    .ok());
    if (step < kSteps / 2) continue;
    const auto now = state.State(1), masters = state.Masters();
    for (int64_t i = 0; i < kSize; ++i) {
      if (i % 4 == 3) {
        ASSERT_EQ(now[i], 0);
        ASSERT_EQ(masters[i], 0);
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
  const auto masters = state.Masters();
  for (int64_t i = 1; i < kSize; ++i) {
    if (i % 4 != 1 && i % 4 != 2) continue;
    moved += std::fabs(masters[i]);
    moved_wide += std::fabs(wide_master[i]);
    EXPECT_LT(std::fabs(masters[i]), 0.5);
  }
  EXPECT_NEAR(moved / moved_wide, 1, 0.25);
}

TEST_P(PackedAdamTest, RefusesWhatItCannotTake) {
  ExpectToRefuseWhatItCannotTake<PackedAdamArgs>(context_, bits(), AdamHyper());
}

}  // namespace
}  // namespace castor::kernels
