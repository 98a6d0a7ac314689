// LayerNorm with the host's order of sums (kernels/layer_norm/cpu.cc): the
// lanes' sums of a row go through one tree. Columns: see ColumnSums.
#ifndef CASTOR_KERNELS_LAYER_NORM_LAYER_NORM_PROGRAM_H_
#define CASTOR_KERNELS_LAYER_NORM_LAYER_NORM_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/norm_rows.h"

namespace castor::kernels::cuda {

template <class T>
struct LayerNormForwardProgram {
  static constexpr int kThreads = kNormThreads;
  using Shared = NoShared;

  int64_t rows, channels;
  float epsilon;
  const T *x, *gamma, *beta;  // x [N, C]; gamma, beta [C]
  T* y;                       // [N, C]
  float *mean, *rstd;         // [N]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    using Values = typename Block::template PerThread<float>;
    Values sum, center, first, second;
    const double count = static_cast<double>(channels);
    block.Each([&](int t) {
      sum[t] = 0.0f;
      ForRowsElements(block, t, rows, channels, [&](int64_t n, int64_t c) {
        sum[t] = Add(sum[t], Load(x + n * channels + c));
      });
    });
    block.WarpSum(sum);
    // The second pass corrects the first's rounding.
    block.Each([&](int t) {
      center[t] = static_cast<float>(static_cast<double>(sum[t]) / count);
      first[t] = second[t] = 0.0f;
      ForRowsElements(block, t, rows, channels, [&](int64_t n, int64_t c) {
        const float e = Sub(Load(x + n * channels + c), center[t]);
        first[t] = Add(first[t], e);
        second[t] = Fma(e, e, second[t]);
      });
    });
    block.WarpSum(first);
    block.WarpSum(second);
    block.Each([&](int t) {
      const double s1 = first[t];
      const double s2 = second[t];
      const double spread = (s2 - s1 * s1 / count) / count;
      const float m = static_cast<float>(center[t] + s1 / count);
      const float variance =
          static_cast<float>(spread < 0.0 ? 0.0 : spread);  // a NaN stays
      const float scale = static_cast<float>(
          1.0 / sqrt(static_cast<double>(variance) + epsilon));
      const int64_t row = NormRow(block, t);
      if (row < rows && t % kWarp == 0) {
        mean[row] = m;
        rstd[row] = scale;
      }
      ForRowsElements(block, t, rows, channels, [&](int64_t n, int64_t c) {
        const float xhat = Mul(Sub(Load(x + n * channels + c), m), scale);
        Store(Fma(xhat, Load(gamma + c), Load(beta + c)), y + n * channels + c);
      });
    });
  }
};

// dx = rstd (w - mean(w) - xhat mean(w xhat)) (+ residual), w = dy gamma.
template <class T>
struct LayerNormBackwardProgram {
  static constexpr int kThreads = kNormThreads;
  using Shared = NoShared;

  int64_t rows, channels;
  const T *dy, *x, *gamma;
  const float *mean, *rstd;
  const T* residual;  // may be null, or dx
  T* dx;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    using Values = typename Block::template PerThread<float>;
    Values w_sum, wx_sum;
    block.Each([&](int t) {
      w_sum[t] = wx_sum[t] = 0.0f;
      ForRowsElements(block, t, rows, channels, [&](int64_t n, int64_t c) {
        const float w = Mul(Load(dy + n * channels + c), Load(gamma + c));
        w_sum[t] = Add(w_sum[t], w);
        wx_sum[t] = Fma(w, Xhat(n, c), wx_sum[t]);
      });
    });
    block.WarpSum(w_sum);
    block.WarpSum(wx_sum);
    block.Each([&](int t) {
      const double count = static_cast<double>(channels);
      const float w_mean = static_cast<float>(w_sum[t] / count);
      const float wx_mean = static_cast<float>(wx_sum[t] / count);
      ForRowsElements(block, t, rows, channels, [&](int64_t n, int64_t c) {
        const int64_t e = n * channels + c;
        const float w = Mul(Load(dy + e), Load(gamma + c));
        const float inner = Sub(Sub(w, w_mean), Mul(Xhat(n, c), wx_mean));
        float result = Mul(rstd[n], inner);
        if (residual != nullptr) result = Add(result, Load(residual + e));
        Store(result, dx + e);
      });
    });
  }

 private:
  CASTOR_HD float Xhat(int64_t n, int64_t c) const {
    return Mul(Sub(Load(x + n * channels + c), mean[n]), rstd[n]);
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
