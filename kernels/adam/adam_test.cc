#include "kernels/adam/adam.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

// One element, written from the comment on rounding in cpu.cc with
// std::fma, operation by operation.
struct Element {
  float p, m, v;
};
Element Oracle(const AdamHyper& h, float grad_scale, float grad, Element e) {
  const double t = static_cast<double>(h.step);
  const double correction1 =
      h.bias_correction ? 1.0 - std::pow(h.beta1, t) : 1.0;
  const double correction2 =
      h.bias_correction ? 1.0 - std::pow(h.beta2, t) : 1.0;
  float g = grad * grad_scale;
  if (!h.decoupled && h.weight_decay != 0) {
    g = std::fma(static_cast<float>(h.weight_decay), e.p, g);
  } else if (h.decoupled) {
    e.p = e.p * static_cast<float>(1.0 - h.lr * h.weight_decay);
  }
  const float w1 = static_cast<float>(1.0 - h.beta1);
  const float difference = g - e.m;
  e.m = w1 < 0.5f ? std::fma(w1, difference, e.m)
                  : std::fma(w1 - 1.0f, difference, g);
  const float scaled = static_cast<float>(1.0 - h.beta2) * g;
  e.v = std::fma(scaled, g, e.v * static_cast<float>(h.beta2));
  const float root = std::sqrt(e.v);
  const float denominator = root / static_cast<float>(std::sqrt(correction2)) +
                            static_cast<float>(h.eps);
  const float numerator = static_cast<float>(-(h.lr / correction1)) * e.m;
  e.p = e.p + numerator / denominator;
  return e;
}

std::vector<AdamHyper> Hypers() {
  AdamHyper adamw{3e-4, 0.9, 0.95, 1e-8, 0.1, true, 7};
  AdamHyper plain{1e-3, 0.9, 0.999, 1e-8, 0.0, true, 1};
  AdamHyper l2{1e-2, 0.8, 0.99, 1e-6, 0.01, false, 1000};
  AdamHyper low_beta{1e-3, 0.25, 0.5, 1e-8, 0.3, true, 2};
  AdamHyper low_beta_l2{1e-3, 0.0, 0.999, 1e-8, 0.3, false, 2};
  AdamHyper uncorrected = adamw;
  uncorrected.bias_correction = false;
  return {adamw, plain, l2, low_beta, low_beta_l2, uncorrected};
}

struct State {
  State(DType dtype, int64_t size, int64_t shift, uint64_t seed)
      : payload(dtype, size, shift),
        sum(DType::kFloat32, size, shift),
        master(DType::kFloat32, size, shift),
        m(DType::kFloat32, size, shift),
        v(DType::kFloat32, size, shift) {
    std::mt19937_64 random(seed);
    // Uniform in [-1, 1): drawing normals would take most of the test's time.
    const auto draw = [&] {
      return static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63;
    };
    for (int64_t i = 0; i < size; ++i) {
      payload.Set(i, 0.3 * draw());
      sum.Set(i, 0.3 * draw());
      master.Set(i, draw());
      m.Set(i, 0.1 * draw());
      v.Set(i, 0.1 * draw());
    }
    for (int64_t i = 0; i < size; ++i) v.Set(i, v[i] * v[i]);
    // Extremes among them.
    const double odd[] = {0.0,    -0.0,
                          1e-38,  1e30,
                          -1e-42, std::numeric_limits<double>::infinity()};
    for (int64_t i = 0; i < 6 && 3 * i + 2 < size; ++i) {
      payload.Set(3 * i, odd[i]);
      m.Set(3 * i + 1, i < 5 ? odd[i] : 0);
      v.Set(3 * i + 2, std::abs(odd[i]));
    }
  }

  AdamArgs Args(const AdamRange* ranges, int64_t num_ranges,
                const float* scale) {
    AdamArgs args;
    args.payload = payload.data();
    args.dtype = payload.dtype();
    args.master = master.floats();
    args.m = m.floats();
    args.v = v.floats();
    args.grad_scale = scale;
    args.ranges = ranges;
    args.num_ranges = num_ranges;
    return args;
  }

  bool GuardsIntact() const {
    return payload.GuardsIntact() && sum.GuardsIntact() &&
           master.GuardsIntact() && m.GuardsIntact() && v.GuardsIntact();
  }
  bool SameBits(const State& other) const {
    return payload.SameBits(other.payload) && master.SameBits(other.master) &&
           m.SameBits(other.m) && v.SameBits(other.v);
  }

  GuardedBuffer payload, sum, master, m, v;
};

// NaNs are equal whatever their payload, which the standard leaves open.
uint32_t Bits(float x) {
  return std::isnan(x) ? 0x7fc00000u : std::bit_cast<uint32_t>(x);
}

float RoundedTo(DType dtype, float x) {
  return WithType(dtype, [&]<class T>(T) { return static_cast<float>(T(x)); });
}

void ExpectOracle(const State& before, const State& after, DType dtype,
                  bool from_sum, const AdamHyper& hyper, float scale,
                  int64_t begin, int64_t end) {
  for (int64_t i = 0; i < before.master.size(); ++i) {
    Element e{static_cast<float>(before.master[i]),
              static_cast<float>(before.m[i]), static_cast<float>(before.v[i])};
    float payload = static_cast<float>(before.payload[i]);
    if (i >= begin && i < end) {
      e = Oracle(
          hyper, scale,
          static_cast<float>(from_sum ? before.sum[i] : before.payload[i]), e);
      payload = RoundedTo(dtype, e.p);
    }
    ASSERT_EQ(Bits(after.master[i]), Bits(e.p)) << i;
    ASSERT_EQ(Bits(after.m[i]), Bits(e.m)) << i;
    ASSERT_EQ(Bits(after.v[i]), Bits(e.v)) << i;
    ASSERT_EQ(Bits(after.payload[i]), Bits(payload)) << i;
  }
}

TEST(AdamUpdate, EqualsScalarFmaOracleBitForBitOnEveryTarget) {
  ThreadPool pool(2);
  const ExecContext context{&pool};
  const float scale = 0.37f;
  ForEachTarget([&](const char* target) {
    for (DType dtype : kAllTypes) {
      for (const AdamHyper& hyper : Hypers()) {
        for (bool from_sum : {false, true}) {
          for (int64_t size : {1, 15, 16, 17, 33, 67, 130, 1000}) {
            for (int64_t shift : {0, 1, 3}) {
              SCOPED_TRACE(testing::Message()
                           << target << " " << DTypeName(dtype) << " beta1 "
                           << hyper.beta1 << " sum " << from_sum << " size "
                           << size << " shift " << shift);
              const State before(dtype, size, shift, 11 + size);
              State after(dtype, size, shift, 11 + size);
              const AdamRange range{0, size, hyper};
              AdamArgs args = after.Args(&range, 1, &scale);
              if (from_sum) args.gradient_sum = after.sum.floats();
              ASSERT_TRUE(kernels::Run(context, args).ok());
              ASSERT_TRUE(after.GuardsIntact());
              ExpectOracle(before, after, dtype, from_sum, hyper, scale, 0,
                           size);
              if (testing::Test::HasFatalFailure()) return;
            }
          }
        }
      }
    }
  });
}

// Out of place the states that are read stay as they are, and those that are
// written are what they become in place, as is the payload. A step that is
// skipped copies them.
TEST(AdamUpdate, GivesTheSameBitsOutOfPlaceOnEveryTarget) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  enum class From { kPayload, kSum, kKept };
  ForEachTarget([&](const char* target) {
    ForEachPool([&](const ExecContext& context) {
      for (DType dtype : kAllTypes) {
        for (const AdamHyper& hyper : {Hypers()[0], Hypers()[2]}) {
          for (const From from : {From::kPayload, From::kSum, From::kKept}) {
            for (const int64_t size : {15, 64, 1003}) {
              for (const int64_t shift : {0, 1}) {
                for (const float scale : {0.37f, kNan}) {
                  SCOPED_TRACE(testing::Message()
                               << target << " " << DTypeName(dtype) << " size "
                               << size << " shift " << shift << " scale "
                               << scale);
                  const AdamRange range{0, size, hyper};
                  State in_place(dtype, size, shift, 31);
                  AdamArgs args = in_place.Args(&range, 1, &scale);
                  if (from == From::kSum) {
                    args.gradient_sum = in_place.sum.floats();
                  }
                  ASSERT_TRUE(kernels::Run(context, args).ok());

                  const State before(dtype, size, shift, 31);
                  State source(dtype, size, shift, 31);
                  State aside(dtype, size, shift, 7);  // other values
                  if (from == From::kPayload) {
                    aside.payload.CopyFrom(source.payload);
                  }
                  args = aside.Args(&range, 1, &scale);
                  args.from = {source.master.floats(), source.m.floats(),
                               source.v.floats()};
                  if (from == From::kSum) {
                    args.gradient_sum = source.sum.floats();
                  } else if (from == From::kKept) {
                    args.gradient = source.payload.data();
                  }
                  ASSERT_TRUE(kernels::Run(context, args).ok());
                  ASSERT_TRUE(aside.GuardsIntact());
                  ASSERT_TRUE(aside.SameBits(in_place));
                  ASSERT_TRUE(source.SameBits(before));
                }
              }
            }
          }
        }
      }
    });
  });
}

TEST(AdamUpdate, LeavesElementsOutsideRangesAlone) {
  ThreadPool pool(2);
  const float scale = 1.0f;
  for (DType dtype : kAllTypes) {
    const State before(dtype, 300, 0, 5);
    State after(dtype, 300, 0, 5);
    const AdamRange range{13, 211, Hypers()[0]};
    ASSERT_TRUE(
        kernels::Run(ExecContext{&pool}, after.Args(&range, 1, &scale)).ok());
    ExpectOracle(before, after, dtype, false, range.hyper, scale, 13, 211);
  }
}

TEST(AdamUpdate, DoesNotDependOnSlicingOrThreads) {
  const int64_t size = 200003;
  const float scale = 0.5f;
  const AdamHyper a = Hypers()[0], b = Hypers()[2];
  for (DType dtype : kAllTypes) {
    State whole(dtype, size, 0, 21);
    const AdamRange two[] = {{0, 70001, a}, {70001, size, b}};
    ThreadPool one(1);
    ASSERT_TRUE(
        kernels::Run(ExecContext{&one}, whole.Args(two, 2, &scale)).ok());
    ForEachPool([&](const ExecContext& context) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        std::mt19937_64 random(seed);
        std::vector<AdamRange> ranges;
        for (int64_t begin = 0; begin < size;) {
          const int64_t limit = begin < 70001 ? 70001 : size;
          const int64_t end = std::min<int64_t>(
              limit,
              begin + 1 +
                  static_cast<int64_t>(random() % (seed < 2 ? 500 : 90000)));
          ranges.push_back({begin, end, begin < 70001 ? a : b});
          begin = end;
        }
        State sliced(dtype, size, seed % 3, 21);
        ASSERT_TRUE(kernels::Run(context, sliced.Args(ranges.data(),
                                                      static_cast<int64_t>(
                                                          ranges.size()),
                                                      &scale))
                        .ok());
        EXPECT_TRUE(sliced.SameBits(whole)) << "seed " << seed;
      }
    });
  }
}

TEST(AdamUpdate, FirstStepMovesByLearningRate) {
  // At t = 1 from m = v = 0: m / (1 - beta1) = g, v / (1 - beta2) = g^2, so the
  // step is lr g / (|g| + eps) = lr sign(g) to within a few roundings and eps.
  const int64_t size = 40;
  ThreadPool pool(1);
  State s(DType::kFloat32, size, 0, 3);
  const float scale = 1.0f;
  for (int64_t i = 0; i < size; ++i) {
    s.master.Set(i, 0);
    s.m.Set(i, 0);
    s.v.Set(i, 0);
    s.payload.Set(i, (i % 2 ? -1.0 : 1.0) * (0.1 + static_cast<double>(i)));
  }
  const AdamRange range{0, size, AdamHyper{}};
  ASSERT_TRUE(kernels::Run(ExecContext{&pool}, s.Args(&range, 1, &scale)).ok());
  for (int64_t i = 0; i < size; ++i) {
    EXPECT_NEAR(s.master[i], i % 2 ? 1e-3 : -1e-3, 1e-3 * 1e-6) << i;
  }
}

TEST(AdamUpdate, PropagatesNanAndInfinity) {
  ThreadPool pool(1);
  const float scale = 1.0f;
  for (DType dtype : kAllTypes) {
    State s(dtype, 64, 0, 4);
    for (int64_t i = 0; i < 64; ++i) s.payload.Set(i, 0.5);
    s.payload.Set(5, std::numeric_limits<double>::quiet_NaN());
    s.payload.Set(6, -std::numeric_limits<double>::infinity());
    const AdamRange range{0, 64, AdamHyper{}};
    ASSERT_TRUE(
        kernels::Run(ExecContext{&pool}, s.Args(&range, 1, &scale)).ok());
    EXPECT_TRUE(std::isnan(s.payload[5]));
    EXPECT_TRUE(std::isnan(s.master[5]));
    EXPECT_TRUE(std::isinf(s.v[6]));
    EXPECT_TRUE(std::isnan(s.payload[6]));  // -inf / inf
  }
}

// A gradient that went beyond its type's range leaves no trace.
TEST(AdamUpdate, SkipsAStepWhoseScaleIsNotFiniteOnEveryTarget) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr int64_t kSize = 1003, kBegin = 13, kEnd = 900;
  const AdamRange ranges[] = {{kBegin, 500, Hypers()[0]},
                              {500, kEnd, Hypers()[2]}};
  ForEachTarget([&](const char* target) {
    ForEachPool([&](const ExecContext& context) {
      for (DType dtype : kAllTypes) {
        for (bool from_sum : {false, true}) {
          for (float scale : {nan, -nan, infinity, -infinity}) {
            State before(dtype, kSize, 1, 8);
            for (GuardedBuffer* gradient : {&before.payload, &before.sum}) {
              for (int64_t i = 0; i < kSize; i += 5) {
                gradient->Set(i, i % 2 == 0 ? nan : infinity);
              }
            }
            State after(dtype, kSize, 1, 8);
            after.payload.CopyFrom(before.payload);
            after.sum.CopyFrom(before.sum);
            AdamArgs args = after.Args(ranges, 2, &scale);
            if (from_sum) args.gradient_sum = after.sum.floats();
            ASSERT_TRUE(kernels::Run(context, args).ok());
            ASSERT_TRUE(after.GuardsIntact());
            ASSERT_TRUE(after.master.SameBits(before.master) &&
                        after.m.SameBits(before.m) &&
                        after.v.SameBits(before.v) &&
                        after.sum.SameBits(before.sum))
                << target << " " << scale;
            for (int64_t i = 0; i < kSize; ++i) {
              const float p =
                  i >= kBegin && i < kEnd
                      ? RoundedTo(dtype, static_cast<float>(before.master[i]))
                      : static_cast<float>(before.payload[i]);
              ASSERT_EQ(Bits(after.payload[i]), Bits(p)) << target << " " << i;
            }
          }
        }
      }
    });
  });
}

TEST(AdamUpdate, RefusesBadArguments) {
  ThreadPool pool(1);
  const float scale = 1.0f;
  State s(DType::kFloat32, 8, 0, 4);
  AdamRange range{4, 3, AdamHyper{}};
  EXPECT_EQ(kernels::Run(ExecContext{&pool}, s.Args(&range, 1, &scale)).code(),
            absl::StatusCode::kInvalidArgument);
  range = {0, 8, AdamHyper{}};
  range.hyper.step = 0;
  EXPECT_EQ(kernels::Run(ExecContext{&pool}, s.Args(&range, 1, &scale)).code(),
            absl::StatusCode::kInvalidArgument);
  range.hyper.step = 1;
  EXPECT_EQ(kernels::Run(ExecContext{&pool}, s.Args(&range, 1, nullptr)).code(),
            absl::StatusCode::kInvalidArgument);
  // Out of place it reads all states, and one gradient.
  AdamArgs args = s.Args(&range, 1, &scale);
  args.from.master = s.sum.floats();
  EXPECT_EQ(kernels::Run(ExecContext{&pool}, args).code(),
            absl::StatusCode::kInvalidArgument);
  args = s.Args(&range, 1, &scale);
  args.gradient_sum = s.sum.floats();
  args.gradient = s.sum.data();
  EXPECT_EQ(kernels::Run(ExecContext{&pool}, args).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(kernels::Run(ExecContext{&pool}, AdamArgs{}).ok());
}

}  // namespace
}  // namespace castor::kernels
