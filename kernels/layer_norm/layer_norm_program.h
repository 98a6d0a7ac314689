// LayerNorm with the host's order of sums (kernels/layer_norm/cpu.cc): a warp
// has a row, lane i the elements i, i + 32, ...; the lanes' sums go through one
// tree. Columns: see ColumnSums.
#ifndef CASTOR_KERNELS_LAYER_NORM_LAYER_NORM_PROGRAM_H_
#define CASTOR_KERNELS_LAYER_NORM_LAYER_NORM_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/column_sums.h"

namespace castor::kernels::cuda {

// The number of rows that a block has.
inline constexpr int kNormRows = 8;

CASTOR_HD int64_t NormBlocks(int64_t rows) {
  return (rows + kNormRows - 1) / kNormRows;
}

template <class T>
struct LayerNormForwardProgram {
  static constexpr int kThreads = kNormRows * kWarp;
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
      const int64_t n = Row(block, t);
      if (n >= rows) return;
      for (int64_t c = t % kWarp; c < channels; c += kWarp) {
        sum[t] = Add(sum[t], Load(x + n * channels + c));
      }
    });
    block.WarpSum(sum);
    // The second pass corrects the first's rounding.
    block.Each([&](int t) {
      center[t] = static_cast<float>(static_cast<double>(sum[t]) / count);
      first[t] = second[t] = 0.0f;
      const int64_t n = Row(block, t);
      if (n >= rows) return;
      for (int64_t c = t % kWarp; c < channels; c += kWarp) {
        const float e = Sub(Load(x + n * channels + c), center[t]);
        first[t] = Add(first[t], e);
        second[t] = Fma(e, e, second[t]);
      }
    });
    block.WarpSum(first);
    block.WarpSum(second);
    block.Each([&](int t) {
      const int64_t n = Row(block, t);
      if (n >= rows) return;
      const double s1 = first[t];
      const double s2 = second[t];
      const double spread = (s2 - s1 * s1 / count) / count;
      const float m = static_cast<float>(center[t] + s1 / count);
      const float variance =
          static_cast<float>(spread < 0.0 ? 0.0 : spread);  // a NaN stays
      const float scale = static_cast<float>(
          1.0 / sqrt(static_cast<double>(variance) + epsilon));
      if (t % kWarp == 0) {
        mean[n] = m;
        rstd[n] = scale;
      }
      for (int64_t c = t % kWarp; c < channels; c += kWarp) {
        const float xhat = Mul(Sub(Load(x + n * channels + c), m), scale);
        Store(Fma(xhat, Load(gamma + c), Load(beta + c)), y + n * channels + c);
      }
    });
  }

 private:
  template <class Block>
  CASTOR_HD static int64_t Row(const Block& block, int t) {
    return block.index() * kNormRows + t / kWarp;
  }
};

// dx = rstd (w - mean(w) - xhat mean(w xhat)) (+ residual), w = dy gamma.
template <class T>
struct LayerNormBackwardProgram {
  static constexpr int kThreads = kNormRows * kWarp;
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
      const int64_t n = block.index() * kNormRows + t / kWarp;
      if (n >= rows) return;
      for (int64_t c = t % kWarp; c < channels; c += kWarp) {
        const float w = Mul(Load(dy + n * channels + c), Load(gamma + c));
        w_sum[t] = Add(w_sum[t], w);
        wx_sum[t] = Fma(w, Xhat(n, c), wx_sum[t]);
      }
    });
    block.WarpSum(w_sum);
    block.WarpSum(wx_sum);
    block.Each([&](int t) {
      const int64_t n = block.index() * kNormRows + t / kWarp;
      if (n >= rows) return;
      const double count = static_cast<double>(channels);
      const float w_mean = static_cast<float>(w_sum[t] / count);
      const float wx_mean = static_cast<float>(wx_sum[t] / count);
      for (int64_t c = t % kWarp; c < channels; c += kWarp) {
        const int64_t e = n * channels + c;
        const float w = Mul(Load(dy + e), Load(gamma + c));
        const float inner = Sub(Sub(w, w_mean), Mul(Xhat(n, c), wx_mean));
        float result = Mul(rstd[n], inner);
        if (residual != nullptr) result = Add(result, Load(residual + e));
        Store(result, dx + e);
      }
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
          if (dgamma != nullptr) Put(total[0], dgamma + c);
          if (dbeta != nullptr) Put(total[1], dbeta + c);
        });
  }

 private:
  CASTOR_HD void Put(float total, T* to) const {
    Store(accumulate ? Add(Load(to), total) : total, to);
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_LAYER_NORM_LAYER_NORM_PROGRAM_H_
