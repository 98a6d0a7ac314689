#include "kernels/lamb/lamb.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/lamb/chunk_for_test.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float RoundedTo(DType dtype, float x) {
  return WithType(dtype, [&]<class T>(T) { return static_cast<float>(T(x)); });
}

// The formulas of cpu.cc's head, element by element, in plain C++.
void Oracle(LambChunk* chunk, const std::vector<LambRange>& ranges,
            bool from_sum, float scale) {
  for (const LambRange& range : ranges) {
    const LambHyper& h = range.hyper;
    const double t = static_cast<double>(h.step);
    const double correction1 =
        h.bias_correction ? 1.0 - std::pow(h.beta1, t) : 1.0;
    const double correction2 =
        h.bias_correction ? 1.0 - std::pow(h.beta2, t) : 1.0;
    const int64_t size = range.end - range.begin;
    std::vector<float> u(size);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t e = range.begin + i;
      const float g =
          static_cast<float>(from_sum ? chunk->sum[e] : chunk->payload[e]) *
          scale;
      float& m = chunk->m.floats()[e];
      float& v = chunk->v.floats()[e];
      const float w1 = static_cast<float>(1.0 - h.beta1);
      const float difference = g - m;
      m = w1 < 0.5f ? std::fma(w1, difference, m)
                    : std::fma(w1 - 1.0f, difference, g);
      const float scaled = static_cast<float>(1.0 - h.beta2) * g;
      v = std::fma(scaled, g, v * static_cast<float>(h.beta2));
      const float root = std::sqrt(v);
      const float denominator =
          root / static_cast<float>(std::sqrt(correction2)) +
          static_cast<float>(h.eps);
      const float numerator = m * static_cast<float>(1.0 / correction1);
      u[i] = std::fma(static_cast<float>(h.weight_decay),
                      chunk->master.floats()[e], numerator / denominator);
    }
    const auto squares = [&](const float* x) {
      ExactSum total;
      for (int64_t begin = 0; begin < size; begin += kNormTile) {
        double s[8] = {};
        for (int64_t i = begin; i < std::min(size, begin + kNormTile); ++i) {
          s[i % 8] += double{x[i]} * x[i];
        }
        total.Add(((s[0] + s[4]) + (s[2] + s[6])) +
                  ((s[1] + s[5]) + (s[3] + s[7])));
      }
      return total.Value();
    };
    double* const values = &chunk->values[kLambSums * range.parameter];
    values[kLambParameter] = squares(chunk->master.floats() + range.begin);
    values[kLambUpdate] = squares(u.data());
    double ratio = 1;
    if (values[0] != 0 && values[1] != 0) {
      ratio = std::clamp(std::sqrt(values[0]) / std::sqrt(values[1]),
                         h.min_coeff, h.max_coeff);
    }
    const float step = static_cast<float>(-(h.lr * ratio));
    for (int64_t i = 0; i < size; ++i) {
      float& p = chunk->master.floats()[range.begin + i];
      p = std::fma(step, u[i], p);
      chunk->payload.Set(range.begin + i, RoundedTo(chunk->payload.dtype(), p));
    }
  }
}

TEST(Lamb, EqualsTheOracleBitForBitOnEveryTarget) {
  ThreadPool pool(2);
  const ExecContext context{&pool};
  const float scale = 0.37f;
  ForEachTarget([&](const char* target) {
    for (DType dtype : kAllTypes) {
      for (bool from_sum : {false, true}) {
        for (int64_t shift : {0, 1, 3}) {
          SCOPED_TRACE(testing::Message()
                       << target << " " << DTypeName(dtype) << " sum "
                       << from_sum << " shift " << shift);
          const std::vector<int64_t> sizes = {1, 15, 64, 67, 130, 1000, 5000};
          LambChunk expected(dtype, sizes, shift, 11),
              got(dtype, sizes, shift, 11);
          const std::vector<LambRange> ranges = got.Ranges(LambHypers());
          Oracle(&expected, ranges, from_sum, scale);
          ASSERT_TRUE(got.Update(context, ranges, from_sum, &scale).ok());
          ASSERT_TRUE(got.GuardsIntact());
          ASSERT_EQ(got.values, expected.values);
          ASSERT_TRUE(got.SameBits(expected));
        }
      }
    }
  });
}

// Shards of a chunk, each measured alone, as ranks and threads do.
TEST(Lamb, DoesNotDependOnShardsOrThreads) {
  const float scale = 0.5f;
  const std::vector<int64_t> sizes = {70001, 90000, 64, 3};
  for (DType dtype : kAllTypes) {
    LambChunk whole(dtype, sizes, 0, 21);
    const std::vector<LambRange> ranges = whole.Ranges(LambHypers());
    ThreadPool one(1);
    ASSERT_TRUE(whole.Update(ExecContext{&one}, ranges, false, &scale).ok());
    ForEachPool([&](const ExecContext& context) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        std::mt19937_64 random(seed);
        LambChunk sharded(dtype, sizes, static_cast<int64_t>(seed % 3), 21);
        std::vector<std::vector<LambRange>> shards(4);
        for (const LambRange& range : ranges) {
          for (int64_t begin = range.begin; begin < range.end;) {
            LambRange part = range;
            part.begin = begin;
            part.end = std::min<int64_t>(
                range.end,
                begin + kNormTile * static_cast<int64_t>(1 + random() % 400));
            begin = part.end;
            shards[random() % shards.size()].push_back(part);
          }
        }
        std::vector<ExactSum> total(sharded.exact.size());
        for (const auto& shard : shards) {
          for (ExactSum& sum : sharded.exact) sum = ExactSum();
          ASSERT_TRUE(
              kernels::Run(context, sharded.MeasureArgs(shard, false, &scale))
                  .ok());
          for (size_t i = 0; i < total.size(); ++i) {
            total[i].Add(sharded.exact[i]);
          }
        }
        for (size_t i = 0; i < total.size(); ++i) {
          sharded.values[i] = total[i].Value();
        }
        for (const auto& shard : shards) {
          ASSERT_TRUE(
              kernels::Run(context, sharded.ApplyArgs(shard, &scale)).ok());
        }
        EXPECT_TRUE(sharded.SameBits(whole)) << "seed " << seed;
      }
    });
  }
}

// Whatever the gradients' size, at first a parameter moves by lr times its own
// norm, unless a limit says otherwise.
TEST(Lamb, MovesByTheParametersNorm) {
  ThreadPool pool(1);
  const ExecContext context{&pool};
  const float scale = 1;
  const double max_coeffs[] = {1e9, 1e9, 0.1, 1e9};
  const double min_coeffs[] = {0, 0, 0, 50};
  for (int i = 0; i < 4; ++i) {
    LambChunk chunk(DType::kFloat32, {1000}, 0, 3);
    double norm2 = 0;
    std::vector<double> before(1000);
    for (int64_t e = 0; e < 1000; ++e) {
      chunk.payload.Set(e, chunk.payload[e] * (i == 1 ? 1e6 : 1e-3));
      chunk.m.Set(e, 0);
      chunk.v.Set(e, 0);
      before[e] = chunk.master[e];
      norm2 += before[e] * before[e];
    }
    const std::vector<LambRange> ranges =
        chunk.Ranges({{.lr = 1e-2,
                       .eps = 1e-12,
                       .max_coeff = max_coeffs[i],
                       .min_coeff = min_coeffs[i]}});
    ASSERT_TRUE(chunk.Update(context, ranges, false, &scale).ok());
    double moved2 = 0;
    for (int64_t e = 0; e < 1000; ++e) {
      moved2 += std::pow(chunk.master[e] - before[e], 2);
    }
    // |u| = sqrt(1000), since every element of u is 1 or -1.
    const double expected = i == 2   ? 1e-2 * 0.1 * std::sqrt(1000.0)
                            : i == 3 ? 1e-2 * 50 * std::sqrt(1000.0)
                                     : 1e-2 * std::sqrt(norm2);
    EXPECT_NEAR(std::sqrt(moved2), expected, 1e-4 * expected) << i;
  }
}

// A parameter that is zero must be able to leave zero.
TEST(Lamb, TakesARatioOfOneWhereANormIsZero) {
  ThreadPool pool(1);
  const ExecContext context{&pool};
  const float scale = 1;
  LambChunk chunk(DType::kFloat32, {128, 128}, 0, 3);
  for (int64_t e = 0; e < 128; ++e) {
    chunk.master.Set(e, 0);
    chunk.payload.Set(e, 1);
    // The other one has no gradient and never had.
    chunk.payload.Set(128 + e, 0);
    for (const int64_t i : {e, 128 + e}) {
      chunk.m.Set(i, 0);
      chunk.v.Set(i, 0);
    }
  }
  const double other = chunk.master[200];
  const std::vector<LambRange> ranges =
      chunk.Ranges({{.lr = 0.5, .max_coeff = 0.1}});
  ASSERT_TRUE(chunk.Update(context, ranges, false, &scale).ok());
  EXPECT_NEAR(chunk.master[5], -0.5, 1e-6);
  EXPECT_EQ(chunk.master[200], other);
}

TEST(Lamb, PropagatesNanToTheWholeParameterAlone) {
  ThreadPool pool(1);
  const float scale = 1.0f;
  for (DType dtype : kAllTypes) {
    LambChunk chunk(dtype, {200, 200}, 0, 4);
    chunk.payload.Set(5, kNan);
    const std::vector<LambRange> ranges = chunk.Ranges(LambHypers());
    ASSERT_TRUE(chunk.Update(ExecContext{&pool}, ranges, false, &scale).ok());
    for (int64_t e = 0; e < 200; ++e) {
      EXPECT_TRUE(std::isnan(chunk.master[e]));
      EXPECT_TRUE(std::isnan(chunk.payload[e]));
      EXPECT_TRUE(std::isfinite(chunk.master[ranges[1].begin + e]));
    }
  }
}

TEST(Lamb, SkipsAStepWhoseScaleIsNotFiniteOnEveryTarget) {
  ForEachTarget([&](const char* target) {
    for (DType dtype : kAllTypes) {
      for (bool from_sum : {false, true}) {
        for (float scale : {kNan, kInfinity, -kInfinity}) {
          const std::vector<int64_t> sizes = {500, 1003};
          LambChunk before(dtype, sizes, 1, 8), after(dtype, sizes, 1, 8);
          for (int64_t i = 0; i < after.size; i += 5) {
            after.payload.Set(i, kNan);
            after.sum.Set(i, kInfinity);
          }
          ThreadPool pool(2);
          const std::vector<LambRange> ranges = after.Ranges(LambHypers());
          ASSERT_TRUE(
              after.Update(ExecContext{&pool}, ranges, from_sum, &scale).ok());
          ASSERT_TRUE(after.GuardsIntact());
          ASSERT_TRUE(after.master.SameBits(before.master) &&
                      after.m.SameBits(before.m) && after.v.SameBits(before.v))
              << target << " " << scale;
          ASSERT_EQ(after.values, before.values);
          for (const LambRange& range : ranges) {
            for (int64_t i = range.begin; i < range.end; ++i) {
              ASSERT_EQ(static_cast<float>(after.payload[i]),
                        RoundedTo(dtype, static_cast<float>(before.master[i])));
            }
          }
        }
      }
    }
  });
}

TEST(Lamb, RefusesBadArguments) {
  ThreadPool pool(1);
  const ExecContext context{&pool};
  const float scale = 1.0f;
  LambChunk chunk(DType::kFloat32, {8}, 0, 4);
  const auto refused = [&](const std::vector<LambRange>& ranges,
                           const float* scale) {
    EXPECT_EQ(
        kernels::Run(context, chunk.MeasureArgs(ranges, false, scale)).code(),
        absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(kernels::Run(context, chunk.ApplyArgs(ranges, scale)).code(),
              absl::StatusCode::kInvalidArgument);
  };
  refused({{.begin = 4, .end = 3}}, &scale);
  refused({{.begin = -1, .end = 3}}, &scale);
  refused({{.begin = 0, .end = 8, .parameter = -1}}, &scale);
  refused({{.begin = 0, .end = 8, .hyper = {.step = 0}}}, &scale);
  refused({{.begin = 0, .end = 8}}, nullptr);
  EXPECT_TRUE(kernels::Run(context, LambMeasureArgs{}).ok());
  EXPECT_TRUE(kernels::Run(context, LambApplyArgs{}).ok());
}

}  // namespace
}  // namespace castor::kernels
