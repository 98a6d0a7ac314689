// LayerNorm with the host's order of sums (kernels/layer_norm/cpu.cc). Rows:
// see NormRows. Columns: see ColumnSums.
#ifndef CASTOR_KERNELS_LAYER_NORM_LAYER_NORM_PROGRAM_H_
#define CASTOR_KERNELS_LAYER_NORM_LAYER_NORM_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/norm_rows.h"

namespace castor::kernels::cuda {

template <class T, bool kStaged>
struct LayerNormForwardProgram {
  static constexpr int kThreads = kNormThreads;
  using Rows = NormRows<T, 1, kStaged>;
  using Shared = typename Rows::Shared;

  Rows x;  // [N, C]
  float epsilon;
  const T *gamma, *beta;  // [C]
  T* y;                   // [N, C]
  float *mean, *rstd;     // [N]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const double count = static_cast<double>(x.channels);
    const int64_t first = x.First(block);
    x.Fetch(block, shared);
    x.template Sum<1>(
        block, shared,
        [](int, int64_t, const float* v, float* sum) {
          sum[0] = Add(sum[0], v[0]);
        },
        [&](int, const float* sum, float* center) {
          center[0] = static_cast<float>(static_cast<double>(sum[0]) / count);
        });
    // The second pass corrects the first's rounding.
    x.template Sum<2>(
        block, shared,
        [&](int r, int64_t, const float* v, float* sum) {
          const float e = Sub(v[0], shared.values[0][r]);
          sum[0] = Add(sum[0], e);
          sum[1] = Fma(e, e, sum[1]);
        },
        [&](int r, const float* sum, float* value) {
          const float center = shared.values[0][r];
          const double s1 = sum[0];
          const double s2 = sum[1];
          const double spread = (s2 - s1 * s1 / count) / count;
          const float variance =
              static_cast<float>(spread < 0.0 ? 0.0 : spread);  // a NaN stays
          value[0] = static_cast<float>(center + s1 / count);
          value[1] = static_cast<float>(
              1.0 / sqrt(static_cast<double>(variance) + epsilon));
          mean[first + r] = value[0];
          rstd[first + r] = value[1];
        });
    x.ForEachRun(block, shared,
                 HasNormRuns(gamma) && HasNormRuns(beta) && HasNormRuns(y),
                 [&](auto place, int r, int64_t c, const T* const* row) {
                   const float m = shared.values[0][r];
                   const float scale = shared.values[1][r];
                   auto v = place.LoadFrom(row[0]);
                   const auto g = place.LoadFrom(gamma + c);
                   const auto b = place.LoadFrom(beta + c);
                   CASTOR_UNROLL
                   for (int i = 0; i < place.kCount; ++i) {
                     const float xhat = Mul(Sub(v.at[i], m), scale);
                     v.at[i] = Fma(xhat, g.at[i], b.at[i]);
                   }
                   place.StoreTo(y + (first + r) * x.channels + c, v);
                 });
  }
};

// dx = rstd (w - mean(w) - xhat mean(w xhat)) (+ residual), w = dy gamma.
template <class T, bool kStaged>
struct LayerNormBackwardProgram {
  static constexpr int kThreads = kNormThreads;
  using Rows = NormRows<T, 2, kStaged>;
  using Shared = typename Rows::Shared;

  Rows dy_and_x;             // [N, C] each
  const T* gamma;            // [C]
  const float *mean, *rstd;  // [N]
  const T* residual;         // [N, C]; may be null, or dx
  T* dx;                     // [N, C]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const double count = static_cast<double>(dy_and_x.channels);
    const int64_t first = dy_and_x.First(block);
    dy_and_x.Fetch(block, shared);
    dy_and_x.template Sum<2>(
        block, shared,
        [&](int r, int64_t c, const float* v, float* sum) {
          const float w = Mul(v[0], Load(gamma + c));
          sum[0] = Add(sum[0], w);
          sum[1] = Fma(w, Xhat(first + r, v[1]), sum[1]);
        },
        [&](int, const float* sum, float* means) {
          means[0] = static_cast<float>(sum[0] / count);
          means[1] = static_cast<float>(sum[1] / count);
        });
    dy_and_x.ForEachRun(
        block, shared,
        HasNormRuns(gamma) && HasNormRuns(residual) && HasNormRuns(dx),
        [&](auto place, int r, int64_t c, const T* const* row) {
          const int64_t e = (first + r) * dy_and_x.channels + c;
          const float w_mean = shared.values[0][r];
          const float wx_mean = shared.values[1][r];
          const float scale = rstd[first + r];
          auto v = place.LoadFrom(row[0]);
          const auto x = place.LoadFrom(row[1]);
          const auto g = place.LoadFrom(gamma + c);
          CASTOR_UNROLL
          for (int i = 0; i < place.kCount; ++i) {
            const float w = Mul(v.at[i], g.at[i]);
            const float inner =
                Sub(Sub(w, w_mean), Mul(Xhat(first + r, x.at[i]), wx_mean));
            v.at[i] = Mul(scale, inner);
          }
          StoreSum(place, v, residual, e, dx);
        });
  }

 private:
  CASTOR_HD float Xhat(int64_t n, float v) const {
    return Mul(Sub(v, mean[n]), rstd[n]);
  }
};

// dgamma [C] = sum_n dy xhat, dbeta [C] = sum_n dy; either may be null.
template <class T>
struct LayerNormParametersProgram {
  using Sums = ColumnSums<T, 2, 2, 2>;
  static constexpr int kThreads = Sums::kThreads;
  using Shared = typename Sums::Shared;

  Sums sums;  // of dy and x [N, C], with mean and rstd [N]
  T *dgamma, *dbeta;
  bool accumulate;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    sums.Run(
        block, shared,
        [](const float* x, const float* row, float* sum) {
          const float xhat = Mul(Sub(x[1], row[0]), row[1]);
          sum[0] = Fma(x[0], xhat, sum[0]);
          sum[1] = Add(sum[1], x[0]);
        },
        [&](int64_t c, const float* total) {
          if (dgamma != nullptr) PutTotal(total[0], dgamma + c, accumulate);
          if (dbeta != nullptr) PutTotal(total[1], dbeta + c, accumulate);
        });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_LAYER_NORM_LAYER_NORM_PROGRAM_H_
