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
#include "kernels/attention/trial.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {
namespace {

using Layout = AttentionLayout;
using Doubles = std::vector<double>;

// What is to be computed. The mask is said in words of its own, so that the
// kernel's is not asked whether it is right.
struct Spec {
  AttentionShape shape;
  bool causal = true;
  int64_t window = 0;             // 0: none
  bool interleave_heads = false;  // a mistake: head h meets h % K

  Spec With(int64_t kv_heads, int64_t extra_keys, int64_t new_window) const {
    Spec other = *this;
    other.shape.kv_heads = kv_heads;
    other.shape.keys = shape.positions + extra_keys;
    other.window = new_window;
    return other;
  }
  AttentionShape Shape() const {
    AttentionShape s = shape;
    s.mask = causal ? AttentionMask::Causal(window) : AttentionMask::All();
    return s;
  }
};

Spec SpecOf(int64_t batch, int64_t positions, int64_t heads, int64_t head_size,
            bool causal = true, float dropout = 0) {
  AttentionShape shape;
  shape.batch = batch;
  shape.positions = positions;
  shape.heads = heads;
  shape.head_size = head_size;
  shape.dropout = dropout;
  shape.key = {77, 0x123456789abcdefu};
  return {shape, causal};
}

std::string Name(const Spec& spec) {
  const AttentionShape s = spec.Shape().Filled();
  return absl::StrCat("B ", s.batch, " T ", s.positions, " S ", s.keys, " H ",
                      s.heads, " K ", s.kv_heads, " D ", s.head_size, " ",
                      DTypeName(s.dtype), spec.causal ? " causal" : "",
                      " window ", spec.window, " scale ", s.scale, " cap ",
                      s.softcap, " dropout ", s.dropout);
}

// The formulas of the header, in double, element by element.
struct Oracle {
  explicit Oracle(const Spec& spec_in)
      : spec(spec_in),
        s(spec.Shape().Filled()),
        group(s.heads / s.kv_heads),
        rows(s.batch * s.heads * s.positions),
        scale(spec.shape.scale > 0
                  ? spec.shape.scale
                  : 1 / std::sqrt(static_cast<double>(s.head_size))) {}

  // The number of elements before a head's row of q, and of k and v.
  int64_t Q(int64_t b, int64_t h, int64_t i) const {
    return ((b * s.positions + i) * s.heads + h) * s.head_size;
  }
  int64_t KvHead(int64_t h) const {
    return spec.interleave_heads ? h % s.kv_heads : h / group;
  }
  int64_t K(int64_t b, int64_t h, int64_t j) const {
    return ((b * s.keys + j) * s.kv_heads + KvHead(h)) * s.head_size;
  }
  int64_t Row(int64_t b, int64_t h, int64_t i) const {
    return (b * s.heads + h) * s.positions + i;
  }
  bool Counts(int64_t i, int64_t j) const {
    const int64_t place = s.keys - s.positions + i;
    return (!spec.causal || j <= place) &&
           (spec.window == 0 || j > place - spec.window);
  }
  double Factor(int64_t row, int64_t j) const {
    if (s.dropout == 0) return 1;
    const uint64_t element = static_cast<uint64_t>(row * s.keys + j);
    const double threshold = std::round(s.dropout * 4294967296.0);
    return RandomWord(s.key, element) >= threshold ? 1 / (1.0 - s.dropout) : 0;
  }

  // x: q, k, v.
  void Forward(const Doubles (&x)[3]) {
    p.assign(rows * s.keys, 0);
    slope.assign(rows * s.keys, 1);
    lse.assign(rows, 0);
    out.assign(x[0].size(), 0);
    largest_score = largest_value = 0;
    ForRows([&](int64_t b, int64_t h, int64_t i, int64_t row) {
      const double* const q = &x[0][Q(b, h, i)];
      double* const o = &out[Q(b, h, i)];
      double* const pr = &p[row * s.keys];
      double sum = 0;
      for (int64_t j = 0; j < s.keys; ++j) {
        if (!Counts(i, j)) continue;
        const double* const k = &x[1][K(b, h, j)];
        double score = 0, magnitude = 0;
        for (int64_t d = 0; d < s.head_size; ++d) {
          const double term = q[d] * k[d] * scale;
          score += term;
          magnitude += std::abs(term);
        }
        largest_score = std::max(largest_score, magnitude);
        if (s.softcap > 0) {
          const double t = std::tanh(score / s.softcap);
          slope[row * s.keys + j] = 1 - t * t;
          score = s.softcap * t;
        }
        pr[j] = std::exp(score);
        sum += pr[j];
      }
      lse[row] = std::log(sum);
      for (int64_t j = 0; j < s.keys; ++j) {
        if (pr[j] == 0) continue;
        pr[j] /= sum;
        const double dropped = pr[j] * Factor(row, j);
        const double* const v = &x[2][K(b, h, j)];
        for (int64_t d = 0; d < s.head_size; ++d) {
          largest_value = std::max(largest_value, std::abs(v[d]));
          o[d] += dropped * v[d];
        }
      }
    });
  }

  // After Forward(x). `given_out` is what delta is formed from.
  void Backward(const Doubles (&x)[3], const Doubles& given_out,
                const Doubles& dout) {
    for (int part = 0; part < 3; ++part) dx[part].assign(x[part].size(), 0);
    columns.assign(s.batch * s.keys * s.kv_heads, 0);
    largest_dp = 0;
    ForRows([&](int64_t b, int64_t h, int64_t i, int64_t row) {
      const double* const q = &x[0][Q(b, h, i)];
      const double* const o = &given_out[Q(b, h, i)];
      const double* const g = &dout[Q(b, h, i)];
      double* const dq = &dx[0][Q(b, h, i)];
      double delta = 0;
      for (int64_t d = 0; d < s.head_size; ++d) delta += o[d] * g[d];
      for (int64_t j = 0; j < s.keys; ++j) {
        const double pij = p[row * s.keys + j];
        if (pij == 0) continue;
        const int64_t at = K(b, h, j);
        const double *const k = &x[1][at], *const v = &x[2][at];
        double *const dk = &dx[1][at], *const dv = &dx[2][at];
        const double factor = Factor(row, j);
        double dp = 0, magnitude = 0;
        for (int64_t d = 0; d < s.head_size; ++d) {
          dp += g[d] * v[d];
          magnitude += std::abs(g[d] * v[d]);
          dv[d] += pij * factor * g[d];
        }
        largest_dp = std::max(largest_dp, magnitude / (1 - s.dropout));
        columns[at / s.head_size] += pij;
        const double ds =
            pij * (dp * factor - delta) * scale * slope[row * s.keys + j];
        for (int64_t d = 0; d < s.head_size; ++d) {
          dq[d] += ds * k[d];
          dk[d] += ds * q[d];
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

  Spec spec;
  AttentionShape s;
  int64_t group, rows;
  double scale;
  Doubles p, slope, lse, out;
  Doubles dx[3];
  Doubles columns;  // sums of p over the queries that meet a key
  // Largest sum of magnitudes of a score, a gradient of p; largest |v|.
  double largest_score = 0, largest_dp = 0, largest_value = 0;
};

TEST(AttentionBand, RangesAreWhatIsSeen) {
  for (int64_t queries = 1; queries <= 6; ++queries) {
    for (int64_t keys = queries; keys <= 9; ++keys) {
      for (int64_t before : {int64_t{0}, int64_t{1}, int64_t{4}, int64_t{8},
                             AttentionMask::kUnbounded}) {
        for (int64_t after :
             {int64_t{0}, int64_t{2}, AttentionMask::kUnbounded}) {
          const AttentionBand band = {queries, keys, {before, after}};
          for (int64_t i = 0; i < queries; ++i) {
            for (int64_t j = 0; j < keys; ++j) {
              const int64_t place = keys - queries + i;
              const bool sees = place - before <= j && j <= place + after;
              ASSERT_EQ(band.Sees(i, j), sees);
              ASSERT_EQ(band.FirstKey(i) <= j && j < band.EndKey(i), sees);
              ASSERT_EQ(band.FirstQuery(j) <= i && i < band.EndQuery(j), sees);
            }
          }
        }
      }
    }
  }
}

TEST(AttentionOracle, AgreesWithFiniteDifferences) {
  std::vector<Spec> specs;
  for (bool causal : {true, false}) {
    for (float dropout : {0.0f, 0.3f}) {
      specs.push_back(SpecOf(2, 5, 2, 3, causal, dropout));
    }
  }
  specs.push_back(SpecOf(2, 4, 4, 3, true, 0.3f).With(2, 2, 3));
  specs.back().shape.softcap = 1.5f;
  specs.back().shape.scale = 0.7f;
  for (const Spec& spec : specs) {
    Oracle oracle(spec);
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    Doubles x[3] = {
        Doubles(oracle.rows * 3),
        Doubles(oracle.s.batch * oracle.s.keys * oracle.s.kv_heads * 3),
        Doubles(oracle.s.batch * oracle.s.keys * oracle.s.kv_heads * 3)};
    Doubles dout(x[0].size());
    for (Doubles& part : x) {
      for (double& v : part) v = normal(random);
    }
    for (double& v : dout) v = normal(random);
    oracle.Forward(x);
    oracle.Backward(x, Doubles(oracle.out), dout);
    const auto objective = [&](double& v, double step) {
      const double before = v;
      v += step;
      oracle.Forward(x);
      v = before;
      double sum = 0;
      for (size_t n = 0; n < dout.size(); ++n) sum += oracle.out[n] * dout[n];
      return sum;
    };
    for (int part = 0; part < 3; ++part) {
      for (size_t i = 0; i < x[part].size(); ++i) {
        // Error of a central difference: step^2 / 6 times a third derivative
        // of order 1 to 10, plus 1e-16 / step.
        constexpr double kStep = 1e-4;
        double& v = x[part][i];
        ASSERT_NEAR((objective(v, kStep) - objective(v, -kStep)) / (2 * kStep),
                    oracle.dx[part][i], 1e-6)
            << Name(spec) << " part " << part << " element " << i;
      }
    }
  }
}

// Where the trial's results differ from what `spec` says, by more than rounding
// explains; empty: nowhere.
//
// Bounds to first order, u = 2^-24 (Higham, (3.5), for each sum), then one
// rounding to the type. With S the largest sum of magnitudes of a score, G that
// of a gradient of the dropped p, f = 1 / (1 - dropout), N the longest sum:
//   a score       (D + 4) u S =: e; capped, 14 u S more (tanh: 4 ulp, and its
//                 argument's roundings)
//   lse           e + (N + 8) u + 2 u |lse| =: l
//   p, relative   e + l + 4 u =: r
//   out           f max|v| (r + (N + 4) u)
//   slope         2 (e / c + 10 u) + u =: t; 0 without a cap
//   ds            p (2 r + 2 (D + 3) u + 2 t) f G scale
//   dq            max|k| (bound of ds for p = 1, and (N + 2) u more of 2 f G)
//   dk            the same with max|q| times the column's sum of p
//   dv            f max|dout| (r + (N + 2) u) times the column's sum of p
std::string Disagreement(const AttentionTrial& run, const Spec& spec) {
  Oracle oracle(spec);
  const AttentionShape& s = oracle.s;
  const Doubles x[3] = {run.x.Values(0), run.x.Values(1), run.x.Values(2)};
  const Doubles dout = run.dout.Values();
  oracle.Forward(x);
  oracle.Backward(x, run.out.Values(), dout);

  constexpr double kU = 0x1p-24;
  const double size = static_cast<double>(s.head_size);
  const double length =
      static_cast<double>(std::max(s.keys, s.positions * oracle.group));
  const double f = 1 / (1.0 - s.dropout);
  const auto near = [&](double got, double expected, double bound,
                        bool rounded) {
    if (rounded && s.dtype != DType::kFloat32) {
      bound += RoundingError(s.dtype, expected);
    }
    return std::abs(got - expected) <= bound;
  };
  const double capped = s.softcap > 0 ? 14 : 0;
  const double e = (size + 4 + capped) * kU * oracle.largest_score;
  const double slope = s.softcap > 0 ? 2 * (e / s.softcap + 10 * kU) + kU : 0;
  double r = 0;
  for (int64_t i = 0; i < run.lse.size(); ++i) {
    const double l = e + (length + 8) * kU + 2 * kU * std::abs(oracle.lse[i]);
    if (!near(run.lse[i], oracle.lse[i], l, false)) {
      return absl::StrCat("lse ", i, ": ", run.lse[i], ", not ", oracle.lse[i]);
    }
    r = std::max(r, e + l + 4 * kU);
  }
  for (int64_t i = 0; i < run.out.size(); ++i) {
    if (!near(run.out[i], oracle.out[i],
              f * oracle.largest_value * (r + (length + 4) * kU), true)) {
      return absl::StrCat("out ", i, ": ", run.out[i], ", not ", oracle.out[i]);
    }
  }
  double largest_dout = 0;
  for (double v : dout) largest_dout = std::max(largest_dout, std::abs(v));
  const double ds =
      (2 * r + 2 * (size + 3) * kU + 2 * (length + 2) * kU + 2 * slope) * f *
      oracle.largest_dp * oracle.scale * run.x.Largest();
  const double dv = f * largest_dout * (r + (length + 2) * kU);
  for (int part = 0; part < 3; ++part) {
    const Doubles got = run.dx.Values(part);
    for (size_t i = 0; i < got.size(); ++i) {
      const double column =
          part == 0 ? 1 : oracle.columns[i / static_cast<size_t>(s.head_size)];
      if (!near(got[i], oracle.dx[part][i], (part == 2 ? dv : ds) * column,
                true)) {
        return absl::StrCat("gradient of part ", part, " at ", i, ": ", got[i],
                            ", not ", oracle.dx[part][i]);
      }
    }
  }
  return "";
}

ThreadPool& Pool() {
  static ThreadPool* const pool = new ThreadPool(2);
  return *pool;
}

void ExpectOracle(const Spec& spec, AttentionTrial::Options options = {}) {
  AttentionTrial run(spec.Shape(), options);
  const absl::Status status = run.Both(ExecContext{&Pool()});
  ASSERT_TRUE(status.ok()) << Name(spec) << ": " << status;
  ASSERT_EQ(Disagreement(run, spec), "") << Name(spec);
}

TEST(Attention, AgreesWithDoubleAtSmallAndOddSizes) {
  for (DType dtype : kAllTypes) {
    for (bool causal : {true, false}) {
      for (float dropout : {0.0f, 0.25f}) {
        for (int64_t positions : {1, 2, 3, 17, 33}) {
          for (int64_t size : {1, 5, 16}) {
            Spec spec = SpecOf(2, positions, 3, size, causal, dropout);
            spec.shape.dtype = dtype;
            ExpectOracle(spec,
                         {.layout = Layout::kPacked, .shift = positions % 5});
          }
        }
      }
    }
  }
}

TEST(Attention, AgreesWithDoubleForGroupsWindowsAndCaches) {
  int64_t n = 0;
  for (DType dtype : kAllTypes) {
    for (int64_t kv_heads : {6, 3, 2, 1}) {
      for (int64_t window : {0, 1, 2, 5, 16, 17}) {
        for (int64_t positions : {1, 5, 17, 20}) {
          for (int64_t extra : {0, 3, 40}) {
            ++n;
            Spec spec = SpecOf(1 + n / 2 % 2, positions, 6, 1 + n % 7, true,
                               n % 3 == 0 ? 0.25f : 0.0f)
                            .With(kv_heads, extra, window);
            spec.shape.dtype = dtype;
            if (n % 4 == 0) spec.shape.softcap = 2;
            if (n % 5 == 0) spec.shape.scale = 0.3f;
            ExpectOracle(spec,
                         {.layout = n % 2 ? Layout::kSeparate : Layout::kRoomy,
                          .shift = n % 4});
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// More queries than keys, and fewer, where all see all.
TEST(Attention, AgreesWithDoubleAcrossTwoSequences) {
  for (DType dtype : kAllTypes) {
    for (int64_t keys : {1, 7, 270}) {
      for (int64_t positions : {1, 5, 130}) {
        Spec spec = SpecOf(2, positions, 4, 8, false, 0.1f);
        spec.shape.dtype = dtype;
        ExpectOracle(spec.With(2, keys - positions, 0));
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
      Spec spec = SpecOf(1, positions, 2, 64, true, positions % 2 ? 0.1f : 0);
      spec.shape.dtype = dtype;
      ExpectOracle(spec);
      ExpectOracle(spec.With(1, 0, 70), {.layout = Layout::kPacked});
      spec.causal = false;
      ExpectOracle(spec, {.shift = 3});
    }
  }
}

TEST(Attention, AgreesWithDoubleForWindowsAcrossTiles) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int64_t window : {1, 64, 65, 129, 255, 256, 257, 400}) {
      Spec spec = SpecOf(1, 390, 2, 6);
      spec.shape.dtype = dtype;
      ExpectOracle(spec.With(1, window % 3 * 100, window));
    }
  }
}

TEST(Attention, AgreesWithDoubleWhereScratchShrinksTheTiles) {
  ExpectOracle(SpecOf(1, 20, 1, 4099, true, 0.5f));
  ExpectOracle(SpecOf(1, 20, 2, 4099).With(1, 4, 6));
  ExpectOracle(SpecOf(1, 700, 2, 200).With(1, 0, 333));
  ExpectOracle(SpecOf(1, 2300, 1, 2));
  ExpectOracle(SpecOf(1, 2300, 1, 2).With(1, 0, 2200));
}

// What a fixture of a model with such operators must notice.
TEST(Attention, MistakesAreLargerThanRounding) {
  for (DType dtype : kAllTypes) {
    Spec spec = SpecOf(2, 33, 6, 8).With(2, 0, 7);
    spec.shape.dtype = dtype;
    spec.shape.scale = 0.25f;
    spec.shape.softcap = 3;
    AttentionTrial run(spec.Shape());
    ASSERT_TRUE(run.Both(ExecContext{&Pool()}).ok());
    ASSERT_EQ(Disagreement(run, spec), "");
    const auto wrong = [&](auto change) {
      Spec other = spec;
      change(other);
      return Disagreement(run, other);
    };
    EXPECT_NE(wrong([](Spec& s) { s.window = 8; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.window = 6; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.window = 0; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.causal = false; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.interleave_heads = true; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.shape.scale = 0; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.shape.scale = 1; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.shape.softcap = 0; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.shape.dropout = 0.1f; }), "");
  }
}

TEST(Attention, BitsDependNeitherOnThreadsNorOnAlignmentNorOnLayout) {
  for (DType dtype : kAllTypes) {
    for (int64_t window : {0, 37}) {
      Spec spec = SpecOf(2, 150, 6, 20, true, 0.1f).With(2, 0, window);
      spec.shape.dtype = dtype;
      ThreadPool one(1);
      AttentionTrial reference(spec.Shape());
      ASSERT_TRUE(reference.Both(ExecContext{&one}).ok());
      const Layout layouts[] = {Layout::kSeparate, Layout::kPacked,
                                Layout::kRoomy};
      const int64_t shifts[] = {7, 0, 1};
      for (int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        for (int n : {0, 1, 2}) {
          AttentionTrial other(
              spec.Shape(),
              {.layout = layouts[n], .shift = shifts[(n + threads) % 3]});
          ASSERT_TRUE(other.Both(ExecContext{&pool}).ok());
          EXPECT_TRUE(other.SameResults(reference));
        }
      }
    }
  }
}

TEST(Attention, WindowAsWideAsTheSequenceIsNone) {
  for (int64_t extra : {0, 10}) {
    const Spec spec = SpecOf(1, 150, 2, 8).With(1, extra, 0);
    AttentionTrial none(spec.Shape());
    ASSERT_TRUE(none.Both(ExecContext{&Pool()}).ok());
    for (int64_t window : {150 + extra, int64_t{4096}}) {
      AttentionTrial wide(spec.With(1, extra, window).Shape());
      ASSERT_TRUE(wide.Both(ExecContext{&Pool()}).ok());
      EXPECT_TRUE(wide.SameResults(none));
    }
  }
}

TEST(Attention, RoundsFloatResultToNearestEvenForSixteenBits) {
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (int64_t window : {0, 50}) {
      Spec spec = SpecOf(1, 300, 2, 33, true, 0.1f).With(1, 0, window);
      AttentionTrial whole(spec.Shape());
      spec.shape.dtype = dtype;
      AttentionTrial half(spec.Shape()), rounded(spec.Shape());
      whole.x.CopyFrom(half.x);
      whole.dout.CopyFrom(half.dout);
      ASSERT_TRUE(half.Forward(ExecContext{&Pool()}).ok());
      ASSERT_TRUE(whole.Forward(ExecContext{&Pool()}).ok());
      rounded.out.CopyFrom(whole.out);
      EXPECT_TRUE(half.out.SameBits(rounded.out));
      EXPECT_TRUE(half.lse.SameBits(whole.lse));

      whole.out.CopyFrom(half.out);
      ASSERT_TRUE(half.Backward(ExecContext{&Pool()}).ok());
      ASSERT_TRUE(whole.Backward(ExecContext{&Pool()}).ok());
      rounded.dx.CopyFrom(whole.dx);
      EXPECT_TRUE(half.dx.SameBits(rounded.dx));
    }
  }
}

TEST(Attention, IgnoresLaterPositionsWhenCausal) {
  const AttentionShape shape = SpecOf(1, 100, 2, 8).Shape();
  AttentionTrial run(shape), later(shape);
  for (int part = 0; part < 3; ++part) {
    for (int64_t c = 0; c < 16; ++c) later.x.Set(part, 99, c, 1000);
  }
  ASSERT_TRUE(run.Forward(ExecContext{&Pool()}).ok());
  ASSERT_TRUE(later.Forward(ExecContext{&Pool()}).ok());
  for (int64_t i = 0; i < 99 * 16; ++i) ASSERT_EQ(run.out[i], later.out[i]);
}

// A NaN would show in every row that is computed with it, even times 0.
TEST(Attention, DoesNotTouchTilesOutsideOfTheWindow) {
  AttentionTrial run(SpecOf(1, 1000, 2, 4).With(1, 0, 32).Shape());
  for (int64_t c = 0; c < 4; ++c) {
    run.x.Set(1, 0, c, NAN);
    run.x.Set(2, 0, c, NAN);
  }
  ASSERT_TRUE(run.Both(ExecContext{&Pool()}).ok());
  const Doubles dq = run.dx.Values(0), dk = run.dx.Values(1);
  EXPECT_TRUE(std::isnan(run.out[0]));
  EXPECT_TRUE(std::isnan(dq[0]));
  // Tiles of queries have 64 and 128 rows, those of keys 256.
  for (size_t i = 8 * (128 + 32); i < dq.size(); ++i) {
    ASSERT_TRUE(std::isfinite(run.out[static_cast<int64_t>(i)])) << i;
  }
  for (size_t i = 8 * (256 + 128); i < dq.size(); ++i) {
    ASSERT_TRUE(std::isfinite(dq[i])) << i;
  }
  for (size_t i = 4 * (256 + 128); i < dk.size(); ++i) {
    ASSERT_TRUE(std::isfinite(dk[i])) << i;
  }
}

TEST(Attention, LeavesTheRoomBehindTheKeysAlone) {
  const Spec spec = SpecOf(2, 10, 2, 4).With(1, 0, 3);
  AttentionTrial run(spec.Shape(), {.layout = Layout::kRoomy});
  ASSERT_TRUE(run.Both(ExecContext{&Pool()}).ok());
  const GuardedBuffer& dk = run.dx.buffers()[1];
  ASSERT_EQ(dk.size(), 2 * 12 * 4);
  for (int64_t i = 0; i < dk.size(); ++i) {
    EXPECT_EQ(std::isnan(dk[i]), i / 4 % 12 >= 10) << i;
  }
}

TEST(Attention, KeysThatNobodySeesHaveNoGradient) {
  AttentionTrial run(SpecOf(1, 4, 2, 4).With(1, 300, 3).Shape());
  ASSERT_TRUE(run.Both(ExecContext{&Pool()}).ok());
  for (int part : {1, 2}) {
    const Doubles dx = run.dx.Values(part);
    for (size_t i = 0; i < dx.size(); ++i) {
      ASSERT_EQ(dx[i] == 0, i < 4 * 298) << i;
    }
  }
}

TEST(Attention, StaysFiniteAtLargeScoresAndShowsNaNs) {
  for (float softcap : {0.0f, 5.0f}) {
    Spec spec = SpecOf(1, 40, 1, 16);
    spec.shape.softcap = softcap;
    AttentionTrial run(spec.Shape(), {.scale = 50});
    ASSERT_TRUE(run.Both(ExecContext{&Pool()}).ok());
    for (double v : run.dx.Values(0)) ASSERT_TRUE(std::isfinite(v));
    for (double v : run.dx.Values(1)) ASSERT_TRUE(std::isfinite(v));
    run.x.Set(0, 20, 0, NAN);
    ASSERT_TRUE(run.Forward(ExecContext{&Pool()}).ok());
    EXPECT_TRUE(std::isfinite(run.out[16 * 19]));
    EXPECT_TRUE(std::isnan(run.out[16 * 20]));
  }
}

TEST(Attention, OfNothingDoesNothing) {
  for (const Spec& spec :
       {SpecOf(0, 5, 2, 4), SpecOf(2, 0, 2, 4), SpecOf(2, 5, 0, 4)}) {
    AttentionTrial run(spec.Shape());
    EXPECT_TRUE(run.Both(ExecContext{&Pool()}).ok());
  }
}

TEST(Attention, RefusesBadShapes) {
  const AttentionShape good = SpecOf(1, 2, 4, 4).Shape();
  EXPECT_TRUE(CheckAttentionShape(good).ok());
  const auto refuses = [&](const char* what, auto change) {
    AttentionShape shape = good;
    change(shape);
    ThreadPool pool(1);
    const absl::Status forward =
        kernels::Run(ExecContext{&pool}, AttentionForwardArgs{.shape = shape});
    EXPECT_EQ(forward.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(forward.message().find(what), absl::string_view::npos) << forward;
    EXPECT_EQ(
        kernels::Run(ExecContext{&pool}, AttentionBackwardArgs{.shape = shape}),
        forward);
  };
  using Shape = AttentionShape;
  refuses("size", [](Shape& s) { s.head_size = 0; });
  refuses("size", [](Shape& s) { s.batch = -1; });
  refuses("size", [](Shape& s) { s.keys = -1; });
  refuses("dropout", [](Shape& s) { s.dropout = 1; });
  refuses("dropout", [](Shape& s) { s.dropout = -0.1f; });
  refuses("dropout", [](Shape& s) { s.dropout = NAN; });
  refuses("multiple", [](Shape& s) { s.kv_heads = 3; });
  refuses("multiple", [](Shape& s) { s.kv_heads = 8; });
  refuses("own place", [](Shape& s) { s.mask.after = -1; });
  refuses("own key", [](Shape& s) { s.keys = 1; });
  refuses("positive", [](Shape& s) { s.scale = -1; });
  refuses("positive", [](Shape& s) { s.scale = NAN; });
  refuses("positive", [](Shape& s) { s.softcap = -1; });
  refuses("strides", [](Shape& s) { s.q_stride = 15; });
  refuses("strides", [](Shape& s) { s.kv_stride = 15; });
  refuses("strides", [](Shape& s) { s.key_rows = 1; });
  refuses("131072", [](Shape& s) { s.keys = 131073; });
}

}  // namespace
}  // namespace castor::kernels
