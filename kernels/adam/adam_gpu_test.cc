// AdamW on the GPU gives the host's bits: an optimizer chunk may live on either
// side (promise P1).
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/adam/adam.h"
#include "kernels/adam/adam_math.h"
#include "kernels/adam/adam_program.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

std::vector<AdamHyper> Hypers() {
  return {{.lr = 1e-3, .weight_decay = 0.1},
          {.lr = 3e-4, .beta1 = 0.95, .weight_decay = 0, .step = 1000},
          {.lr = 1e-2, .beta1 = 0.3, .beta2 = 0.95, .step = 2},
          {.lr = 1e-3, .weight_decay = 0.1, .decoupled = false, .step = 7},
          {.lr = 3e-4, .step = 2, .bias_correction = false},
          {.lr = 0, .eps = 0, .step = 3}};
}

struct State {
  State(DType dtype, int64_t size, int64_t shift)
      : payload(dtype, size, shift),
        sum(DType::kFloat32, size, shift),
        master(DType::kFloat32, size, shift),
        m(DType::kFloat32, size, shift),
        v(DType::kFloat32, size, shift) {}

  // Any bits at all: denormals, infinities and NaNs among them. v is not
  // negative, as a sum of squares.
  void FillBits(std::mt19937_64& random) {
    for (GuardedBuffer* x : {&sum, &master, &m, &v}) {
      for (int64_t i = 0; i < x->size(); ++i) {
        x->floats()[i] =
            std::bit_cast<float>(static_cast<uint32_t>(random() >> 32));
      }
    }
    for (int64_t i = 0; i < v.size(); ++i) {
      v.floats()[i] = std::fabs(v.floats()[i]);
    }
    payload.CopyFrom(sum);
  }
  // Fills with values like those of a run: exponents around those of gradients
  // and weights.
  void FillLikely(std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < payload.size(); ++i) {
      const double g = normal(random) * std::exp(4 * normal(random)) * 1e-3;
      payload.Set(i, g);
      sum.Set(i, g * 4);
      master.Set(i, normal(random) * 0.02);
      m.Set(i, g * (0.5 + normal(random)));
      v.Set(i, g * g * std::exp(normal(random)));
    }
  }
  void CopyFrom(const State& other) {
    for (auto [to, from] :
         {std::pair(&payload, &other.payload), std::pair(&sum, &other.sum),
          std::pair(&master, &other.master), std::pair(&m, &other.m),
          std::pair(&v, &other.v)}) {
      std::memcpy(to->data(), from->data(), to->size() * SizeOf(to->dtype()));
    }
  }
  AdamArgs Args(bool from_sum, const std::vector<AdamRange>& ranges,
                const float* scale) {
    return {.payload = payload.data(),
            .dtype = payload.dtype(),
            .gradient_sum = from_sum ? sum.floats() : nullptr,
            .master = master.floats(),
            .m = m.floats(),
            .v = v.floats(),
            .grad_scale = scale,
            .ranges = ranges.data(),
            .num_ranges = static_cast<int64_t>(ranges.size())};
  }
  GuardedBuffer payload, sum, master, m, v;
};

void ExpectSame(const State& got, const State& expected) {
  const GuardedBuffer* a[] = {&got.payload, &got.sum, &got.master, &got.m,
                              &got.v};
  const GuardedBuffer* b[] = {&expected.payload, &expected.sum,
                              &expected.master, &expected.m, &expected.v};
  const char* names[] = {"payload", "sum", "master", "m", "v"};
  for (int k = 0; k < 5; ++k) ExpectSame(*a[k], *b[k], names[k]);
}

absl::Status RunOnDevice(State& s, bool from_sum,
                         const std::vector<AdamRange>& ranges, float scale) {
  OnDevice on;
  AdamArgs args = s.Args(from_sum, ranges, nullptr);
  args.payload = on.Out(s.payload);
  float* sum = on.OutFloats(s.sum);
  args.gradient_sum = from_sum ? sum : nullptr;
  args.master = on.OutFloats(s.master);
  args.m = on.OutFloats(s.m);
  args.v = on.OutFloats(s.v);
  args.grad_scale = on.In(std::vector<float>{scale});
  const absl::Status status = kernels::Run(on.context(), args);
  const absl::Status finished = on.Finish();
  return status.ok() ? finished : status;
}

using AdamOnGpu = ExactOperatorTest;

INSTANTIATE_TEST_SUITE_P(Arrays, AdamOnGpu, testing::Bool(), AlignmentName);

TEST_P(AdamOnGpu, GivesTheHostsBits) {
  for (DType dtype : kAllTypes) {
    for (bool from_sum : {false, true}) {
      for (const AdamHyper& hyper : Hypers()) {
        for (bool likely : {false, true}) {
          const int64_t kSize = likely ? 30000 : 200000;
          const std::vector<AdamRange> ranges = {
              {GetParam() ? 4 : 3, kSize - 5, hyper}};
          State before(dtype, kSize, Shift(1));
          likely ? before.FillLikely(random_) : before.FillBits(random_);
          State expected(dtype, kSize, Shift(1)), got(dtype, kSize, Shift(1));
          expected.CopyFrom(before);
          got.CopyFrom(before);
          const float scale = likely ? 0.25f : 1.0f;
          ASSERT_TRUE(
              kernels::Run(host_, expected.Args(from_sum, ranges, &scale))
                  .ok());
          ASSERT_TRUE(RunOnDevice(got, from_sum, ranges, scale).ok());
          ExpectSame(got, expected);
        }
      }
    }
  }
}

// More ranges than one launch takes, some of them empty, with gaps.
TEST_P(AdamOnGpu, TakesManySmallRanges) {
  constexpr int64_t kSize = 40000;
  std::vector<AdamRange> ranges;
  for (int64_t begin = 0; begin + 400 < kSize;) {
    const int64_t end =
        begin + static_cast<int64_t>(random_() % 3 == 0 ? 0 : random_() % 400);
    ranges.push_back({begin, end, Hypers()[random_() % 5]});
    begin = end + static_cast<int64_t>(random_() % 20);
  }
  ASSERT_GT(ranges.size(), 2u * cuda::AdamPieces::kMost);
  for (DType dtype : kAllTypes) {
    State before(dtype, kSize, Shift(2));
    before.FillLikely(random_);
    State expected(dtype, kSize, Shift(2));
    expected.CopyFrom(before);
    const float scale = 0.5f;
    ASSERT_TRUE(kernels::Run(host_, expected.Args(false, ranges, &scale)).ok());
    TestDevice::Get()->InEveryOrder([&] {
      State got(dtype, kSize, Shift(2));
      got.CopyFrom(before);
      ASSERT_TRUE(RunOnDevice(got, false, ranges, scale).ok());
      ExpectSame(got, expected);
    });
  }
}

// Gradients that are NaN or infinite leave no trace.
TEST_P(AdamOnGpu, SkipsAStepWhoseScaleIsNotFinite) {
  constexpr int64_t kSize = 5000;
  const std::vector<AdamRange> ranges = {{3, 2000, Hypers()[0]},
                                         {2000, kSize - 5, Hypers()[3]}};
  const float infinity = std::numeric_limits<float>::infinity();
  for (DType dtype : kAllTypes) {
    for (bool from_sum : {false, true}) {
      for (float scale : {infinity, -infinity, infinity - infinity}) {
        State before(dtype, kSize, Shift(1));
        before.FillLikely(random_);
        for (int64_t i = 0; i < kSize; i += 7) {
          before.payload.Set(i, scale);
          before.sum.Set(i, scale);
        }
        State expected(dtype, kSize, Shift(1));
        expected.CopyFrom(before);
        ASSERT_TRUE(
            kernels::Run(host_, expected.Args(from_sum, ranges, &scale)).ok());
        ASSERT_TRUE(expected.m.SameBits(before.m));
        TestDevice::Get()->InEveryOrder([&] {
          State got(dtype, kSize, Shift(1));
          got.CopyFrom(before);
          ASSERT_TRUE(RunOnDevice(got, from_sum, ranges, scale).ok());
          ExpectSame(got, expected);
        });
      }
    }
  }
}

TEST_P(AdamOnGpu, RefusesWhatTheHostRefuses) {
  State s(DType::kFloat32, 8, 0);
  const float scale = 1;
  const std::vector<AdamRange> bad = {{4, 2, AdamHyper()}};
  EXPECT_EQ(
      kernels::Run(TestDevice::Get()->context(), s.Args(false, bad, &scale)),
      kernels::Run(host_, s.Args(false, bad, &scale)));
  EXPECT_EQ(
      kernels::Run(TestDevice::Get()->context(), s.Args(false, bad, nullptr)),
      kernels::Run(host_, s.Args(false, bad, nullptr)));
}

}  // namespace
}  // namespace castor::kernels
