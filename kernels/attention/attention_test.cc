
#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {
namespace {

std::string Name(const AttentionShape& s) {
  return absl::StrCat("B ", s.batch, " T ", s.positions, " H ", s.heads, " D ",
                      s.head_size, " ", DTypeName(s.dtype),
                      s.causal ? " causal" : "", " dropout ", s.dropout);
}

AttentionShape Shape(int64_t batch, int64_t positions, int64_t heads,
                     int64_t head_size, bool causal = true, float dropout = 0) {
  AttentionShape shape;
  shape.batch = batch;
  shape.positions = positions;
  shape.heads = heads;
  shape.head_size = head_size;
  shape.causal = causal;
  shape.dropout = dropout;
  shape.key = {77, 0x123456789abcdefu};
  return shape;
}

using Doubles = std::vector<double>;

// The formulas of the header, in double, element by element.
struct Oracle {
  explicit Oracle(const AttentionShape& shape)
      : s(shape),
        rows(shape.batch * shape.heads * shape.positions),
        channels(shape.heads * shape.head_size),
        scale(1 / std::sqrt(static_cast<double>(shape.head_size))) {}

  int64_t Qkv(int part, int64_t b, int64_t h, int64_t i, int64_t d) const {
    return ((b * s.positions + i) * 3 + part) * channels + h * s.head_size + d;
  }
  int64_t Out(int64_t b, int64_t h, int64_t i, int64_t d) const {
    return (b * s.positions + i) * channels + h * s.head_size + d;
  }
  int64_t Row(int64_t b, int64_t h, int64_t i) const {
    return (b * s.heads + h) * s.positions + i;
  }
  double Factor(int64_t row, int64_t j) const {
    if (s.dropout == 0) return 1;
    const uint64_t element = static_cast<uint64_t>(row * s.positions + j);
    const double threshold = std::round(s.dropout * 4294967296.0);
    return RandomWord(s.key, element) >= threshold ? 1 / (1.0 - s.dropout) : 0;
  }

  void Forward(const Doubles& qkv) {
    p.assign(rows * s.positions, 0);
    lse.assign(rows, 0);
    out.assign(rows * s.head_size, 0);
    largest_score = largest_value = 0;
    ForRows([&](int64_t b, int64_t h, int64_t i, int64_t row) {
      double* pr = &p[row * s.positions];
      const int64_t keys = s.causal ? i + 1 : s.positions;
      double sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0, magnitude = 0;
        for (int64_t d = 0; d < s.head_size; ++d) {
          const double term =
              qkv[Qkv(0, b, h, i, d)] * qkv[Qkv(1, b, h, j, d)] * scale;
          score += term;
          magnitude += std::abs(term);
        }
        largest_score = std::max(largest_score, magnitude);
        pr[j] = std::exp(score);
        sum += pr[j];
      }
      lse[row] = std::log(sum);
      for (int64_t j = 0; j < keys; ++j) {
        pr[j] /= sum;
        for (int64_t d = 0; d < s.head_size; ++d) {
          const double v = qkv[Qkv(2, b, h, j, d)];
          largest_value = std::max(largest_value, std::abs(v));
          out[Out(b, h, i, d)] += pr[j] * Factor(row, j) * v;
        }
      }
    });
  }

  // After Forward(qkv). `given_out` is what delta is formed from.
  void Backward(const Doubles& qkv, const Doubles& given_out,
                const Doubles& dout) {
    dqkv.assign(qkv.size(), 0);
    columns.assign(rows, 0);
    largest_dp = 0;
    ForRows([&](int64_t b, int64_t h, int64_t i, int64_t row) {
      double delta = 0;
      for (int64_t d = 0; d < s.head_size; ++d) {
        delta += given_out[Out(b, h, i, d)] * dout[Out(b, h, i, d)];
      }
      for (int64_t j = 0; j < s.positions; ++j) {
        const double pij = p[row * s.positions + j];
        if (pij == 0) continue;
        const double factor = Factor(row, j);
        double dp = 0, magnitude = 0;
        for (int64_t d = 0; d < s.head_size; ++d) {
          const double o = dout[Out(b, h, i, d)];
          dp += o * qkv[Qkv(2, b, h, j, d)];
          magnitude += std::abs(o * qkv[Qkv(2, b, h, j, d)]);
          dqkv[Qkv(2, b, h, j, d)] += pij * factor * o;
        }
        largest_dp = std::max(largest_dp, magnitude / (1 - s.dropout));
        columns[Row(b, h, j)] += pij;
        const double ds = pij * (dp * factor - delta) * scale;
        for (int64_t d = 0; d < s.head_size; ++d) {
          dqkv[Qkv(0, b, h, i, d)] += ds * qkv[Qkv(1, b, h, j, d)];
          dqkv[Qkv(1, b, h, j, d)] += ds * qkv[Qkv(0, b, h, i, d)];
        }
      }
    });
  }

  template <typename Fn>
  void ForRows(const Fn& fn) const {
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        for (int64_t i = 0; i < s.positions; ++i) fn(b, h, i, Row(b, h, i));
      }
    }
  }

  AttentionShape s;
  int64_t rows, channels;
  double scale;
  Doubles p, lse, out, dqkv;
  Doubles columns;  // sums of p over the queries
  // Largest sum of magnitudes of a score, a gradient of p; largest |v|.
  double largest_score = 0, largest_dp = 0, largest_value = 0;
};

TEST(AttentionOracle, AgreesWithFiniteDifferences) {
  for (bool causal : {true, false}) {
    for (float dropout : {0.0f, 0.3f}) {
      const AttentionShape shape = Shape(2, 5, 2, 3, causal, dropout);
      Oracle oracle(shape);
      std::mt19937_64 random(1);
      std::normal_distribution<double> normal;
      Doubles qkv(2 * 5 * 18), dout(2 * 5 * 6);
      for (double& x : qkv) x = normal(random);
      for (double& x : dout) x = normal(random);
      oracle.Forward(qkv);
      const Doubles out = oracle.out;
      oracle.Backward(qkv, out, dout);
      const Doubles gradient = oracle.dqkv;
      const auto objective = [&](size_t i, double step) {
        Doubles moved = qkv;
        moved[i] += step;
        oracle.Forward(moved);
        double sum = 0;
        for (size_t n = 0; n < dout.size(); ++n) sum += oracle.out[n] * dout[n];
        return sum;
      };
      for (size_t i = 0; i < qkv.size(); ++i) {
        // Error of a central difference: step^2 / 6 times a third derivative
        // of order 1 to 10, plus 1e-16 / step.
        constexpr double kStep = 1e-4;
        EXPECT_NEAR((objective(i, kStep) - objective(i, -kStep)) / (2 * kStep),
                    gradient[i], 1e-6);
      }
    }
  }
}

struct Trial {
  explicit Trial(const AttentionShape& s, int64_t shift = 0)
      : shape(s),
        rows(s.batch * s.positions),
        channels(s.heads * s.head_size),
        qkv(s.dtype, rows * 3 * channels, shift),
        out(s.dtype, rows * channels, shift),
        dout(s.dtype, rows * channels, shift),
        dqkv(s.dtype, rows * 3 * channels, shift),
        lse(DType::kFloat32, rows * s.heads, shift) {
    std::mt19937_64 random(5);
    qkv.FillNormal(random);
    dout.FillNormal(random);
  }

  absl::Status Forward(int threads) {
    ThreadPool pool(threads);
    GuardedBuffer workspace = GuardedBuffer::Workspace(
        AttentionForwardArgs{.shape = shape}.CpuWorkspaceBytes());
    AttentionForwardArgs args;
    args.shape = shape;
    args.qkv = qkv.data();
    args.out = out.data();
    args.lse = lse.floats();
    args.workspace = workspace.data();
    const absl::Status status = kernels::Run(ExecContext{&pool}, args);
    EXPECT_TRUE(workspace.GuardsIntact() && qkv.GuardsIntact() &&
                out.GuardsIntact() && lse.GuardsIntact());
    return status;
  }
  absl::Status Backward(int threads) {
    ThreadPool pool(threads);
    GuardedBuffer workspace = GuardedBuffer::Workspace(
        AttentionBackwardArgs{.shape = shape}.CpuWorkspaceBytes());
    AttentionBackwardArgs args;
    args.shape = shape;
    args.qkv = qkv.data();
    args.out = out.data();
    args.lse = lse.floats();
    args.dout = dout.data();
    args.dqkv = dqkv.data();
    args.workspace = workspace.data();
    const absl::Status status = kernels::Run(ExecContext{&pool}, args);
    EXPECT_TRUE(workspace.GuardsIntact() && dqkv.GuardsIntact() &&
                dout.GuardsIntact());
    return status;
  }

  AttentionShape shape;
  int64_t rows, channels;
  GuardedBuffer qkv, out, dout, dqkv, lse;
};

double Largest(const GuardedBuffer& x) {
  double largest = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(x[i]));
  }
  return largest;
}

// Bounds to first order, u = 2^-24 (Higham, (3.5), for each sum), then one
// rounding to the type. With S the largest sum of magnitudes of a score, G that
// of a gradient of the dropped p, f = 1 / (1 - dropout):
//   a score       (D + 4) u S =: e
//   lse           e + (T + 8) u + 2 u |lse| =: l
//   p, relative   e + l + 4 u =: r
//   out           f max|v| (r + (T + 4) u)
//   ds            p (2 r + 2 (D + 3) u) f G / sqrt(D)
//   dq            max|k| (bound of ds for p = 1, and (T + 2) u more of 2 f G)
//   dk            the same with max|q| times the column's sum of p
//   dv            f max|dout| (r + (T + 2) u) times the column's sum of p
void ExpectOracle(const AttentionShape& shape, int64_t shift = 0) {
  SCOPED_TRACE(Name(shape));
  Trial run(shape, shift);
  ASSERT_TRUE(run.Forward(2).ok());
  ASSERT_TRUE(run.Backward(2).ok());
  Oracle oracle(shape);
  const Doubles qkv = run.qkv.Values();
  oracle.Forward(qkv);
  oracle.Backward(qkv, run.out.Values(), run.dout.Values());

  constexpr double kU = 0x1p-24;
  const double size = static_cast<double>(shape.head_size);
  const double length = static_cast<double>(shape.positions);
  const double f = 1 / (1.0 - shape.dropout);
  const auto rounding = [&](double value) {
    return shape.dtype == DType::kFloat32 ? 0
                                          : RoundingError(shape.dtype, value);
  };
  const double e = (size + 4) * kU * oracle.largest_score;
  double r = 0;
  for (int64_t i = 0; i < run.lse.size(); ++i) {
    const double l = e + (length + 8) * kU + 2 * kU * std::abs(oracle.lse[i]);
    ASSERT_NEAR(run.lse[i], oracle.lse[i], l) << "lse " << i;
    r = std::max(r, e + l + 4 * kU);
  }
  for (int64_t i = 0; i < run.out.size(); ++i) {
    ASSERT_NEAR(run.out[i], oracle.out[i],
                f * oracle.largest_value * (r + (length + 4) * kU) +
                    rounding(oracle.out[i]))
        << "out " << i;
  }
  const double ds = (2 * r + 2 * (size + 3) * kU + 2 * (length + 2) * kU) * f *
                    oracle.largest_dp * oracle.scale;
  const double largest = Largest(run.qkv);
  const double dv = f * Largest(run.dout) * (r + (length + 2) * kU);
  oracle.ForRows([&](int64_t b, int64_t h, int64_t i, int64_t row) {
    const double column = oracle.columns[row];
    const double bounds[3] = {largest * ds, largest * ds * column, dv * column};
    for (int part = 0; part < 3; ++part) {
      for (int64_t d = 0; d < shape.head_size; ++d) {
        const int64_t at = oracle.Qkv(part, b, h, i, d);
        ASSERT_NEAR(run.dqkv[at], oracle.dqkv[at],
                    bounds[part] + rounding(oracle.dqkv[at]))
            << "gradient of part " << part << " at " << b << ", " << h << ", "
            << i << ", " << d;
      }
    }
  });
}

TEST(Attention, AgreesWithDoubleAtSmallAndOddSizes) {
  for (DType dtype : kAllTypes) {
    for (bool causal : {true, false}) {
      for (float dropout : {0.0f, 0.25f}) {
        for (int64_t positions : {1, 2, 3, 17, 33}) {
          for (int64_t size : {1, 5, 16}) {
            AttentionShape shape =
                Shape(2, positions, 3, size, causal, dropout);
            shape.dtype = dtype;
            ExpectOracle(shape, positions % 5);
          }
        }
      }
    }
  }
}

// Tiles are 64 queries forward, blocks 128 x 256 backward.
TEST(Attention, AgreesWithDoubleAcrossTiles) {
  for (DType dtype : kAllTypes) {
    for (int64_t positions : {64, 65, 128, 257, 300}) {
      // Only the conversions of fp16 are others than those of bf16.
      if (dtype == DType::kFloat16 && positions % 2 == 0) continue;
      AttentionShape shape =
          Shape(1, positions, 2, 64, true, positions % 2 ? 0.1f : 0);
      shape.dtype = dtype;
      ExpectOracle(shape);
      shape.causal = false;
      ExpectOracle(shape, 3);
    }
  }
}

TEST(Attention, AgreesWithDoubleWhereScratchShrinksTheTiles) {
  ExpectOracle(Shape(1, 20, 1, 4099, true, 0.5f));
  ExpectOracle(Shape(1, 3000, 1, 2));
}

TEST(Attention, BitsDependNeitherOnThreadsNorOnAlignment) {
  for (DType dtype : kAllTypes) {
    AttentionShape shape = Shape(2, 150, 3, 20, true, 0.1f);
    shape.dtype = dtype;
    Trial reference(shape);
    ASSERT_TRUE(reference.Forward(1).ok());
    ASSERT_TRUE(reference.Backward(1).ok());
    for (int threads : {2, 3}) {
      for (int64_t shift : {0, 1, 7}) {
        Trial other(shape, shift);
        ASSERT_TRUE(other.Forward(threads).ok());
        ASSERT_TRUE(other.Backward(threads).ok());
        EXPECT_TRUE(other.out.SameBits(reference.out));
        EXPECT_TRUE(other.lse.SameBits(reference.lse));
        EXPECT_TRUE(other.dqkv.SameBits(reference.dqkv));
      }
    }
  }
}

TEST(Attention, RoundsFloatResultToNearestEvenForSixteenBits) {
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    AttentionShape shape = Shape(1, 300, 2, 33, true, 0.1f);
    Trial whole(shape);
    shape.dtype = dtype;
    Trial half(shape);
    whole.qkv.CopyFrom(half.qkv);
    whole.dout.CopyFrom(half.dout);
    ASSERT_TRUE(half.Forward(2).ok());
    ASSERT_TRUE(whole.Forward(2).ok());
    GuardedBuffer out(dtype, half.out.size());
    out.CopyFrom(whole.out);
    EXPECT_TRUE(half.out.SameBits(out));
    EXPECT_TRUE(half.lse.SameBits(whole.lse));

    whole.out.CopyFrom(half.out);
    ASSERT_TRUE(half.Backward(2).ok());
    ASSERT_TRUE(whole.Backward(2).ok());
    GuardedBuffer dqkv(dtype, half.dqkv.size());
    dqkv.CopyFrom(whole.dqkv);
    EXPECT_TRUE(half.dqkv.SameBits(dqkv));
  }
}

TEST(Attention, IgnoresLaterPositionsWhenCausal) {
  const AttentionShape shape = Shape(1, 100, 2, 8);
  Trial run(shape);
  ASSERT_TRUE(run.Forward(1).ok());
  Trial later(shape);
  // The last position's q, k and v.
  for (int64_t i = 99 * 48; i < 100 * 48; ++i) later.qkv.Set(i, 1000);
  ASSERT_TRUE(later.Forward(1).ok());
  for (int64_t i = 0; i < 99 * 16; ++i) ASSERT_EQ(run.out[i], later.out[i]);
}

TEST(Attention, StaysFiniteAtLargeScoresAndShowsNaNs) {
  Trial run(Shape(1, 40, 1, 16));
  for (int64_t i = 0; i < run.qkv.size(); ++i) {
    run.qkv.Set(i, 50 * run.qkv[i]);
  }
  ASSERT_TRUE(run.Forward(1).ok());
  ASSERT_TRUE(run.Backward(1).ok());
  for (int64_t i = 0; i < run.dqkv.size(); ++i) {
    ASSERT_TRUE(std::isfinite(run.dqkv[i]));
  }
  run.qkv.Set(48 * 20, std::nan(""));  // q of position 20
  ASSERT_TRUE(run.Forward(1).ok());
  EXPECT_TRUE(std::isfinite(run.out[16 * 19]));
  EXPECT_TRUE(std::isnan(run.out[16 * 20]));
}

TEST(Attention, OfNothingDoesNothing) {
  for (const AttentionShape& shape : {Shape(0, 5, 2, 4), Shape(2, 0, 2, 4)}) {
    Trial run(shape);
    EXPECT_TRUE(run.Forward(2).ok());
    EXPECT_TRUE(run.Backward(2).ok());
  }
}

TEST(Attention, RefusesBadShapes) {
  for (const AttentionShape& shape :
       {Shape(1, 2, 2, 0), Shape(1, 2, 2, 4, true, 1.0f),
        Shape(1, 2, 2, 4, true, -0.1f), Shape(1, 2, 2, 4, true, NAN)}) {
    Trial run(shape);
    EXPECT_EQ(run.Forward(1).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(run.Backward(1).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace castor::kernels
