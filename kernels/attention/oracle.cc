#include "kernels/attention/oracle.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/with_type.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {
namespace {

using Doubles = std::vector<double>;

}  // namespace

AttentionSpec AttentionSpec::With(int64_t kv_heads, int64_t extra_keys,
                                  int64_t new_window) const {
  AttentionSpec other = *this;
  other.shape.kv_heads = kv_heads;
  other.shape.keys = shape.positions + extra_keys;
  other.window = new_window;
  return other;
}

AttentionShape AttentionSpec::Shape() const {
  AttentionShape s = shape;
  s.mask = causal ? AttentionMask::Causal(window) : AttentionMask::All();
  return s;
}

AttentionSpec SpecOf(int64_t batch, int64_t positions, int64_t heads,
                     int64_t head_size, bool causal, float dropout) {
  AttentionShape shape;
  shape.batch = batch;
  shape.positions = positions;
  shape.heads = heads;
  shape.head_size = head_size;
  shape.dropout = dropout;
  shape.key = {77, 0x123456789abcdefu};
  return {shape, causal};
}

std::string Name(const AttentionSpec& spec) {
  const AttentionShape s = spec.Shape().Filled();
  return absl::StrCat("B ", s.batch, " T ", s.positions, " S ", s.keys, " H ",
                      s.heads, " K ", s.kv_heads, " D ", s.head_size, " ",
                      DTypeName(s.dtype), spec.causal ? " causal" : "",
                      " window ", spec.window, " scale ", s.scale, " cap ",
                      s.softcap, " dropout ", s.dropout, " documents ",
                      absl::StrJoin(spec.lengths, " "));
}

AttentionOracle::AttentionOracle(const AttentionSpec& spec_in)
    : spec(spec_in),
      s(spec.Shape().Filled()),
      group(s.heads / s.kv_heads),
      rows(s.batch * s.heads * s.positions),
      scale(spec.shape.scale > 0
                ? spec.shape.scale
                : 1 / std::sqrt(static_cast<double>(s.head_size))),
      documents(DocumentsOfLengths(s.batch, spec.lengths)) {}

int64_t AttentionOracle::Q(int64_t b, int64_t h, int64_t i) const {
  return ((b * s.positions + i) * s.heads + h) * s.head_size;
}

int64_t AttentionOracle::KvHead(int64_t h) const {
  return spec.interleave_heads ? h % s.kv_heads : h / group;
}

int64_t AttentionOracle::K(int64_t b, int64_t h, int64_t j) const {
  return ((b * s.keys + j) * s.kv_heads + KvHead(h)) * s.head_size;
}

bool AttentionOracle::Counts(int64_t b, int64_t i, int64_t j) const {
  const int64_t place = s.keys - s.positions + i;
  if (!documents.empty() &&
      documents[b * s.positions + i] != documents[b * s.positions + j]) {
    return false;
  }
  return (!spec.causal || j <= place) &&
         (spec.window == 0 || j > place - spec.window);
}

double AttentionOracle::Factor(int64_t row, int64_t j) const {
  if (s.dropout == 0) return 1;
  const uint64_t element = static_cast<uint64_t>(row * s.keys + j);
  const double threshold = std::round(s.dropout * 4294967296.0);
  return RandomWord(s.key, element) >= threshold ? 1 / (1.0 - s.dropout) : 0;
}

template <typename Fn>
void AttentionOracle::ForRows(const Fn& fn) const {
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t i = 0; i < s.positions; ++i)
        fn(b, h, i, (b * s.heads + h) * s.positions + i);
    }
  }
}

void AttentionOracle::Forward(const Doubles (&x)[3]) {
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
      if (!Counts(b, i, j)) continue;
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

void AttentionOracle::Backward(const Doubles (&x)[3], const Doubles& given_out,
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
std::string Disagreement(const AttentionTrial& run, const AttentionSpec& spec) {
  AttentionOracle oracle(spec);
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

}  // namespace castor::kernels
