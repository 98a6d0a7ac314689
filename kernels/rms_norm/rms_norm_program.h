// RmsNorm with the host's order of sums (cpu.cc): the lanes' sums of a row go
// through one tree. Columns: see ColumnSums.
#ifndef CASTOR_KERNELS_RMS_NORM_RMS_NORM_PROGRAM_H_
#define CASTOR_KERNELS_RMS_NORM_RMS_NORM_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/norm_rows.h"

namespace castor::kernels::cuda {

template <class T>
struct RmsNormForwardProgram {
  static constexpr int kThreads = kNormThreads;
  using Shared = NoShared;

  int64_t rows, channels;
  float epsilon, offset;
  const T *x, *gamma;  // x [N, C]; gamma [C]
  T* y;                // [N, C]
  float* rstd;         // [N]

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    typename Block::template PerThread<float> squares;
    block.Each([&](int t) {
      squares[t] = 0.0f;
      ForRowsElements(block, t, rows, channels, [&](int64_t n, int64_t c) {
        const float v = Load(x + n * channels + c);
        squares[t] = Fma(v, v, squares[t]);
      });
    });
    block.WarpSum(squares);
    block.Each([&](int t) {
      const double mean =
          static_cast<double>(squares[t]) / static_cast<double>(channels);
      const float scale = static_cast<float>(1.0 / sqrt(mean + epsilon));
      const int64_t row = NormRow(block, t);
      if (row < rows && t % kWarp == 0) rstd[row] = scale;
      ForRowsElements(block, t, rows, channels, [&](int64_t n, int64_t c) {
        const float xhat = Mul(Load(x + n * channels + c), scale);
        const float gain = Add(Load(gamma + c), offset);
        Store(Mul(xhat, gain), y + n * channels + c);
      });
    });
  }
};

// dx = rstd (w - xhat mean(w xhat)) (+ residual), w = dy (gamma + offset).
template <class T>
struct RmsNormBackwardProgram {
  static constexpr int kThreads = kNormThreads;
  using Shared = NoShared;

  int64_t rows, channels;
  float offset;
  const T *dy, *x, *gamma;
  const float* rstd;
  const T* residual;  // may be null, or dx
  T* dx;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    typename Block::template PerThread<float> sum;
    block.Each([&](int t) {
      sum[t] = 0.0f;
      ForRowsElements(block, t, rows, channels, [&](int64_t n, int64_t c) {
        sum[t] = Fma(Weighted(n, c), Xhat(n, c), sum[t]);
      });
    });
    block.WarpSum(sum);
    block.Each([&](int t) {
      const float mean =
          static_cast<float>(sum[t] / static_cast<double>(channels));
      ForRowsElements(block, t, rows, channels, [&](int64_t n, int64_t c) {
        const int64_t e = n * channels + c;
        const float inner = Sub(Weighted(n, c), Mul(Xhat(n, c), mean));
        float result = Mul(rstd[n], inner);
        if (residual != nullptr) result = Add(result, Load(residual + e));
        Store(result, dx + e);
      });
    });
  }

 private:
  CASTOR_HD float Weighted(int64_t n, int64_t c) const {
    return Mul(Load(dy + n * channels + c), Add(Load(gamma + c), offset));
  }
  CASTOR_HD float Xhat(int64_t n, int64_t c) const {
    return Mul(Load(x + n * channels + c), rstd[n]);
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
