#include "kernels/adafactor/adafactor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/adafactor/chunk_for_test.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<AdafactorShape> Shapes() {
  return {{1, 1, 0}, {1, 130, 0}, {1, 7, 9},   {1, 30, 100}, {2, 3, 64},
          {6, 5, 3}, {1, 1, 77},  {1, 300, 1}, {1, 3, 700}};
}

float RoundedTo(DType dtype, float x) {
  return WithType(dtype, [&]<class T>(T) { return static_cast<float>(T(x)); });
}

// The sum of squares of cpu.cc's head, over elements [begin, end) of a
// parameter, in one tile.
double TileSum(const std::vector<float>& x, int64_t begin, int64_t end) {
  double sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += double{x[i]} * x[i];
  return sum;
}

double Norm2(const std::vector<float>& x) {
  ExactSum total;
  const int64_t size = static_cast<int64_t>(x.size());
  for (int64_t begin = 0; begin < size; begin += kNormTile) {
    double s[8] = {};
    for (int64_t i = begin; i < std::min(size, begin + kNormTile); ++i) {
      s[i % 8] += double{x[i]} * x[i];
    }
    total.Add(((s[0] + s[4]) + (s[2] + s[6])) +
              ((s[1] + s[5]) + (s[3] + s[7])));
  }
  return total.Value();
}

// The formulas of the headers, parameter by parameter, in plain C++.
void Oracle(AdafactorChunk* chunk, bool from_sum, bool moment, float scale) {
  for (const AdafactorRange& range : chunk->ranges) {
    const AdafactorHyper& h = range.hyper;
    const bool vector = range.columns == 0;
    const int64_t columns = vector ? 1 : range.columns;
    const int64_t of_matrix = range.rows_of_matrix * columns;
    std::vector<float> g(range.size), u(range.size), master(range.size);
    std::vector<ExactSum> rows(range.rows);
    std::vector<ExactSum> of_columns(
        vector ? 0 : range.rows / range.rows_of_matrix * columns);
    for (int64_t i = 0; i < range.size; ++i) {
      const int64_t e = range.begin + i;
      g[i] = static_cast<float>(from_sum ? chunk->sum[e] : chunk->payload[e]) *
             scale;
      master[i] = chunk->master.floats()[e];
      if (!vector) {
        of_columns[i / of_matrix * columns + i % columns].Add(double{g[i]} *
                                                              g[i]);
      }
    }
    for (int64_t i = 0; i < range.size;) {
      const int64_t end = std::min((i / columns + 1) * columns,
                                   (i / kNormTile + 1) * kNormTile);
      rows[i / columns].Add(TileSum(g, i, end));
      i = end;
    }
    float* const kept = &chunk->kept[range.first_margin];
    float* const factors = &chunk->factors[range.first_margin];
    const auto keep = [&](int64_t i, const ExactSum& sum, int64_t addends) {
      kept[i] = static_cast<float>(
          0.6 * kept[i] +
          (1 - 0.6) * (sum.Value() / static_cast<double>(addends) + 1e-30));
    };
    for (int64_t i = 0; i < range.rows; ++i) keep(i, rows[i], columns);
    for (int64_t i = 0; i < range.rows; ++i) {
      double mean = 0;
      const int64_t first = i / range.rows_of_matrix * range.rows_of_matrix;
      for (int64_t k = 0; k < range.rows_of_matrix; ++k) {
        mean += kept[first + k];
      }
      mean = vector ? 1 : mean / static_cast<double>(range.rows_of_matrix);
      factors[i] = static_cast<float>(1 / std::sqrt(kept[i] / mean));
    }
    for (size_t i = 0; i < of_columns.size(); ++i) {
      const int64_t at = range.rows + static_cast<int64_t>(i);
      keep(at, of_columns[i], range.rows_of_matrix);
      factors[at] = static_cast<float>(1 / std::sqrt(double{kept[at]}));
    }
    for (int64_t i = 0; i < range.size; ++i) {
      float factor = factors[i / columns];
      if (!vector) {
        factor *= factors[range.rows + i / of_matrix * columns + i % columns];
      }
      u[i] = factor * g[i];
    }
    double* const values = &chunk->values[kAdafactorSums * range.parameter];
    values[kAdafactorParameter] = Norm2(master);
    values[kAdafactorUpdate] = Norm2(u);
    const double size = static_cast<double>(range.size);
    const double lr =
        h.rate * (h.scale_parameter
                      ? std::max(h.eps2, std::sqrt(values[0] / size))
                      : 1.0);
    const double over = std::sqrt(values[1] / size) / h.clip_threshold;
    const float step = static_cast<float>(over < 1 ? lr : lr / over);
    const float decay = static_cast<float>(h.weight_decay * lr);
    for (int64_t i = 0; i < range.size; ++i) {
      const int64_t e = range.begin + i;
      float w = step * u[i];
      if (moment) {
        const float kept_part =
            static_cast<float>(h.beta1) * static_cast<float>(chunk->m[e]);
        w = kept_part + static_cast<float>(1 - h.beta1) * w;
        chunk->m.Set(e, w);
      }
      const float p = master[i] - decay * master[i] - w;
      chunk->master.Set(e, p);
      chunk->payload.Set(e, RoundedTo(chunk->payload.dtype(), p));
    }
  }
}

TEST(Adafactor, EqualsTheOracleBitForBitOnEveryTarget) {
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
          const bool moment = shift == 1;
          AdafactorChunk expected(dtype, Shapes(), shift, 11),
              got(dtype, Shapes(), shift, 11);
          Oracle(&expected, from_sum, moment, scale);
          ASSERT_TRUE(
              got.Update(context, got.ranges, from_sum, moment, &scale).ok());
          ASSERT_TRUE(got.GuardsIntact());
          ASSERT_EQ(got.values, expected.values);
          ASSERT_EQ(got.kept, expected.kept);
          ASSERT_TRUE(got.SameBits(expected));
        }
      }
    }
  });
}

// Shards of a chunk, each measured alone, as ranks and threads do.
TEST(Adafactor, DoesNotDependOnShardsOrThreads) {
  const float scale = 0.5f;
  const std::vector<AdafactorShape> shapes = {
      {1, 50, 333}, {1, 3, 0}, {5, 20, 70}, {1, 1000, 0}, {1, 4, 9000}};
  for (DType dtype : kAllTypes) {
    AdafactorChunk whole(dtype, shapes, 0, 21);
    ThreadPool one(1);
    ASSERT_TRUE(
        whole.Update(ExecContext{&one}, whole.ranges, false, true, &scale)
            .ok());
    ForEachPool([&](const ExecContext& context) {
      for (uint64_t seed = 0; seed < 2; ++seed) {
        std::mt19937_64 random(seed);
        AdafactorChunk sharded(dtype, shapes, static_cast<int64_t>(seed), 21);
        std::vector<std::vector<AdafactorRange>> shards(4);
        for (const AdafactorRange& range : whole.ranges) {
          for (int64_t begin = range.begin; begin < range.end;) {
            AdafactorRange part = range;
            part.begin = begin;
            part.first = begin - range.begin;
            part.end = std::min<int64_t>(
                range.end,
                begin + kNormTile * static_cast<int64_t>(1 + random() % 60));
            begin = part.end;
            shards[random() % shards.size()].push_back(part);
          }
        }
        // Each shard's sums, begun anew, and added up.
        const auto measure = [&](std::vector<ExactSum>* sums, const auto& run) {
          std::vector<ExactSum> total(sums->size());
          for (const auto& shard : shards) {
            std::fill(sums->begin(), sums->end(), ExactSum());
            ASSERT_TRUE(run(shard).ok());
            for (size_t i = 0; i < total.size(); ++i) {
              total[i].Add((*sums)[i]);
            }
          }
          *sums = total;
        };
        measure(&sharded.margins, [&](const auto& shard) {
          return kernels::Run(context,
                              sharded.MarginsArgs(shard, false, &scale));
        });
        sharded.UpdateMargins();
        measure(&sharded.exact, [&](const auto& shard) {
          return kernels::Run(context,
                              sharded.MeasureArgs(shard, false, &scale));
        });
        sharded.UpdateValues();
        for (const auto& shard : shards) {
          ASSERT_TRUE(kernels::Run(context, sharded.ApplyArgs(shard, false,
                                                              true, &scale))
                          .ok());
        }
        EXPECT_TRUE(sharded.SameBits(whole)) << "seed " << seed;
      }
    });
  }
}

TEST(Adafactor, PropagatesNanToTheWholeParameterAlone) {
  ThreadPool pool(1);
  const float scale = 1;
  for (DType dtype : kAllTypes) {
    AdafactorChunk chunk(dtype, {{1, 20, 10}, {1, 20, 10}}, 0, 4);
    chunk.payload.Set(5, kNan);
    ASSERT_TRUE(
        chunk.Update(ExecContext{&pool}, chunk.ranges, false, false, &scale)
            .ok());
    for (int64_t e = 0; e < 200; ++e) {
      EXPECT_TRUE(std::isnan(chunk.master[e]));
      EXPECT_TRUE(std::isfinite(chunk.master[chunk.ranges[1].begin + e]));
    }
  }
}

// Nothing is divided by margins that have never seen a gradient and are 0.
TEST(Adafactor, LeavesWhatHasNoGradientsWhereItIs) {
  ThreadPool pool(1);
  const float scale = 1;
  AdafactorChunk chunk(DType::kFloat32, {{1, 8, 8}, {1, 64, 0}}, 0, 4);
  for (int64_t e = 0; e < chunk.size; ++e) chunk.payload.Set(e, 0);
  std::fill(chunk.kept.begin(), chunk.kept.end(), 0.0f);
  for (AdafactorRange& range : chunk.ranges) range.hyper.weight_decay = 0;
  const AdafactorChunk before(DType::kFloat32, chunk.shapes, 0, 4);
  ASSERT_TRUE(
      chunk.Update(ExecContext{&pool}, chunk.ranges, false, false, &scale)
          .ok());
  EXPECT_TRUE(chunk.master.SameBits(before.master));
}

TEST(Adafactor, SkipsAStepWhoseScaleIsNotFiniteOnEveryTarget) {
  ForEachTarget([&](const char* target) {
    for (DType dtype : kAllTypes) {
      for (float scale : {kNan, kInfinity, -kInfinity}) {
        AdafactorChunk before(dtype, Shapes(), 1, 8),
            after(dtype, Shapes(), 1, 8);
        for (int64_t i = 0; i < after.size; i += 5) {
          after.payload.Set(i, kNan);
          after.sum.Set(i, kInfinity);
        }
        ThreadPool pool(2);
        const ExecContext context{&pool};
        for (const bool from_sum : {false, true}) {
          ASSERT_TRUE(kernels::Run(context, after.MarginsArgs(after.ranges,
                                                              from_sum, &scale))
                          .ok());
          ASSERT_TRUE(kernels::Run(context, after.MeasureArgs(after.ranges,
                                                              from_sum, &scale))
                          .ok());
          after.UpdateValues();
          ASSERT_TRUE(kernels::Run(
                          context,
                          after.ApplyArgs(after.ranges, from_sum, true, &scale))
                          .ok());
        }
        ASSERT_TRUE(after.GuardsIntact());
        ASSERT_TRUE(after.master.SameBits(before.master) &&
                    after.m.SameBits(before.m))
            << target << " " << scale;
        ASSERT_EQ(after.values, before.values);
        for (const ExactSum& sum : after.margins) ASSERT_EQ(sum.Value(), 0);
        for (const AdafactorRange& range : after.ranges) {
          for (int64_t i = range.begin; i < range.end; ++i) {
            ASSERT_EQ(static_cast<float>(after.payload[i]),
                      RoundedTo(dtype, static_cast<float>(before.master[i])));
          }
        }
      }
    }
  });
}

TEST(Adafactor, RefusesBadArguments) {
  ThreadPool pool(1);
  const ExecContext context{&pool};
  const float scale = 1;
  AdafactorChunk chunk(DType::kFloat32, {{1, 8, 8}}, 0, 4);
  const auto refused = [&](const auto& change, const float* scale) {
    std::vector<AdafactorRange> ranges = chunk.ranges;
    change(ranges[0]);
    for (const absl::Status& status :
         {kernels::Run(context, chunk.MarginsArgs(ranges, false, scale)),
          kernels::Run(context, chunk.MeasureArgs(ranges, false, scale)),
          kernels::Run(context, chunk.ApplyArgs(ranges, false, true, scale))}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    }
  };
  refused([](AdafactorRange& range) { range.end = -1; }, &scale);
  refused([](AdafactorRange& range) { range.begin = -1; }, &scale);
  refused([](AdafactorRange& range) { range.parameter = -1; }, &scale);
  refused([](AdafactorRange& range) { range.first = 64; }, &scale);
  refused([](AdafactorRange& range) { range.first = 3; }, &scale);
  refused([](AdafactorRange& range) { range.columns = 7; }, &scale);
  refused([](AdafactorRange& range) { range.rows_of_matrix = 0; }, &scale);
  refused([](AdafactorRange& range) { range.rows_of_matrix = 3; }, &scale);
  refused([](AdafactorRange& range) { range.first_margin = -1; }, &scale);
  refused([](AdafactorRange&) {}, nullptr);
  EXPECT_TRUE(kernels::Run(context, AdafactorMarginsArgs{}).ok());
  EXPECT_TRUE(kernels::Run(context, AdafactorMeasureArgs{}).ok());
  EXPECT_TRUE(kernels::Run(context, AdafactorApplyArgs{}).ok());
}

}  // namespace
}  // namespace castor::kernels
