// RmsNorm with the host's order of sums (cpu.cc). Rows: see NormRows. Columns:
// see ColumnSums.
#ifndef CASTOR_KERNELS_RMS_NORM_RMS_NORM_PROGRAM_H_
#define CASTOR_KERNELS_RMS_NORM_RMS_NORM_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/norm_rows.h"

namespace castor::kernels::cuda {

template <class T, bool kStaged>
struct RmsNormForwardProgram {
  static constexpr int kThreads = kNormThreads;
  using Rows = NormRows<T, 1, kStaged>;
  using Shared = typename Rows::Shared;

  Rows x;  // [N, C]
  float epsilon, offset;
  const T* gamma;  // [C]
  T* y;            // [N, C]
  float* rstd;     // [N]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const int64_t first = x.First(block);
    x.Fetch(block, shared);
    x.template Sum<1>(
        block, shared,
        [](int, int64_t, const float* v, float* squares) {
          squares[0] = Fma(v[0], v[0], squares[0]);
        },
        [&](int r, const float* squares, float* scale) {
          const double mean =
              static_cast<double>(squares[0]) / static_cast<double>(x.channels);
          scale[0] = static_cast<float>(1.0 / sqrt(mean + epsilon));
          rstd[first + r] = scale[0];
        });
    x.ForEachRun(block, shared, HasNormRuns(gamma) && HasNormRuns(y),
                 [&](auto place, int r, int64_t c, const T* const* row) {
                   const float scale = shared.values[0][r];
                   auto v = place.LoadFrom(row[0]);
                   const auto g = place.LoadFrom(gamma + c);
                   CASTOR_UNROLL
                   for (int i = 0; i < place.kCount; ++i) {
                     v.at[i] = Mul(Mul(v.at[i], scale), Add(g.at[i], offset));
                   }
                   place.StoreTo(y + (first + r) * x.channels + c, v);
                 });
  }
};

// dx = rstd (w - xhat mean(w xhat)) (+ residual), w = dy (gamma + offset).
template <class T, bool kStaged>
struct RmsNormBackwardProgram {
  static constexpr int kThreads = kNormThreads;
  using Rows = NormRows<T, 2, kStaged>;
  using Shared = typename Rows::Shared;

  Rows dy_and_x;  // [N, C] each
  float offset;
  const T* gamma;     // [C]
  const float* rstd;  // [N]
  const T* residual;  // [N, C]; may be null, or dx
  T* dx;              // [N, C]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    const int64_t first = dy_and_x.First(block);
    dy_and_x.Fetch(block, shared);
    dy_and_x.template Sum<1>(
        block, shared,
        [&](int r, int64_t c, const float* v, float* sum) {
          const float w = Mul(v[0], Add(Load(gamma + c), offset));
          sum[0] = Fma(w, Mul(v[1], rstd[first + r]), sum[0]);
        },
        [&](int, const float* sum, float* mean) {
          mean[0] = static_cast<float>(sum[0] /
                                       static_cast<double>(dy_and_x.channels));
        });
    dy_and_x.ForEachRun(
        block, shared,
        HasNormRuns(gamma) && HasNormRuns(residual) && HasNormRuns(dx),
        [&](auto place, int r, int64_t c, const T* const* row) {
          const int64_t e = (first + r) * dy_and_x.channels + c;
          const float mean = shared.values[0][r];
          const float scale = rstd[first + r];
          auto v = place.LoadFrom(row[0]);
          const auto x = place.LoadFrom(row[1]);
          const auto g = place.LoadFrom(gamma + c);
          CASTOR_UNROLL
          for (int i = 0; i < place.kCount; ++i) {
            const float w = Mul(v.at[i], Add(g.at[i], offset));
            const float inner = Sub(w, Mul(Mul(x.at[i], scale), mean));
            v.at[i] = Mul(scale, inner);
          }
          StoreSum(place, v, residual, e, dx);
        });
  }
};

// dgamma [C] (+)= sum_n dy xhat.
template <class T>
struct RmsNormParametersProgram {
  using Sums = ColumnSums<T, 2, 1, 1>;
  static constexpr int kThreads = Sums::kThreads;
  using Shared = typename Sums::Shared;

  Sums sums;  // of dy and x [N, C], with rstd [N]
  T* dgamma;
  bool accumulate;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    sums.Run(
        block, shared,
        [](const float* x, const float* rstd, float* sum) {
          sum[0] = Fma(x[0], Mul(x[1], rstd[0]), sum[0]);
        },
        [&](int64_t c, const float* total) {
          PutTotal(total[0], dgamma + c, accumulate);
        });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_RMS_NORM_RMS_NORM_PROGRAM_H_
