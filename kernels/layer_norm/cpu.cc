#include <algorithm>
#include <cmath>

#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/layer_norm/layer_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// Two passes, the second correcting the first: with the rounded mean m of the
// first, s = sum(x - m) is what the rounding left over, and
// mean = m + s / C, variance = (sum (x - m)^2 - s^2 / C) / C. A large mean
// costs no digits.
template <class T>
HWY_INLINE void RowMoments(int64_t channels, const T* x, float* mean,
                           float* variance) {
  const F32 d;
  const double count = static_cast<double>(channels);
  const auto [sum] =
      SumRow<1>(channels, [&](int64_t c, int64_t left, VF32* to) HWY_ATTR {
        to[0] = hn::Add(to[0], LoadPart(x + c, left));
      });
  const float m = static_cast<float>(static_cast<double>(sum) / count);

  const VF32 center = hn::Set(d, m);
  const auto [first, second] =
      SumRow<2>(channels, [&](int64_t c, int64_t left, VF32* to) HWY_ATTR {
        VF32 e = hn::Sub(LoadPart(x + c, left), center);
        if (left < kLanes) {
          e = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(left)), e);
        }
        to[0] = hn::Add(to[0], e);
        to[1] = Fma(e, e, to[1]);
      });
  const double s1 = first;
  const double s2 = second;
  *mean = static_cast<float>(m + s1 / count);
  *variance = static_cast<float>(std::max(0.0, (s2 - s1 * s1 / count) / count));
}

template <class T>
HWY_INLINE void NormRows(int64_t rows, int64_t channels, float epsilon,
                         const T* x, const T* gamma, const T* beta, T* y,
                         float* mean, float* rstd) {
  const F32 d;
  for (int64_t n = 0; n < rows; ++n, x += channels, y += channels) {
    float variance;
    RowMoments(channels, x, &mean[n], &variance);
    rstd[n] = static_cast<float>(
        1.0 / std::sqrt(static_cast<double>(variance) + epsilon));
    const VF32 center = hn::Set(d, mean[n]);
    const VF32 scale = hn::Set(d, rstd[n]);
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t count = channels - c;
      const VF32 xhat = hn::Mul(hn::Sub(LoadPart(x + c, count), center), scale);
      StorePart(
          Fma(xhat, LoadPart(gamma + c, count), LoadPart(beta + c, count)),
          y + c, count);
    }
  }
}

// dx = rstd (w - mean(w) - xhat mean(w xhat)), w = dy gamma.
template <class T>
HWY_INLINE void NormRowsBackward(int64_t rows, int64_t channels, const T* dy,
                                 const T* x, const T* gamma, const float* mean,
                                 const float* rstd, const T* residual, T* dx) {
  const F32 d;
  const double count = static_cast<double>(channels);
  for (int64_t n = 0; n < rows; ++n) {
    const T* dy_row = dy + n * channels;
    const T* x_row = x + n * channels;
    const VF32 center = hn::Set(d, mean[n]);
    const VF32 scale = hn::Set(d, rstd[n]);
    // Behind the row's end w and x - mean are 0. (With an x of 0 there, a large
    // mean would make xhat infinite, and 0 times that is no number.)
    const auto [w_sum, wx_sum] =
        SumRow<2>(channels, [&](int64_t c, int64_t left, VF32* to) HWY_ATTR {
          const VF32 w =
              hn::Mul(LoadPart(dy_row + c, left), LoadPart(gamma + c, left));
          const VF32 xhat = hn::Mul(
              hn::Sub(LoadPart(x_row + c, left, mean[n]), center), scale);
          to[0] = hn::Add(to[0], w);
          to[1] = Fma(w, xhat, to[1]);
        });
    const VF32 w_mean = hn::Set(d, static_cast<float>(w_sum / count));
    const VF32 wx_mean = hn::Set(d, static_cast<float>(wx_sum / count));
    T* dx_row = dx + n * channels;
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t left = channels - c;
      const VF32 w =
          hn::Mul(LoadPart(dy_row + c, left), LoadPart(gamma + c, left));
      const VF32 xhat =
          hn::Mul(hn::Sub(LoadPart(x_row + c, left), center), scale);
      const VF32 inner = hn::Sub(hn::Sub(w, w_mean), hn::Mul(xhat, wx_mean));
      VF32 result = hn::Mul(scale, inner);
      if (residual != nullptr) {
        result = hn::Add(result, LoadPart(residual + n * channels + c, left));
      }
      StorePart(result, dx_row + c, left);
    }
  }
}

// dgamma and dbeta of up to kColumnTile columns.
template <class T>
HWY_INLINE void NormColumns(int64_t rows, int64_t stride, int64_t columns,
                            const T* dy, const T* x, const float* mean,
                            const float* rstd, T* dgamma, T* dbeta,
                            bool accumulate) {
  const F32 d;
  SumColumns<2>(
      rows, columns,
      [&](int64_t n, int64_t c, int64_t left, VF32* to) HWY_ATTR {
        const int64_t i = n * stride + c;
        const VF32 g = LoadPart(dy + i, left);
        const VF32 centered =
            hn::Sub(LoadPart(x + i, left), hn::Set(d, mean[n]));
        const VF32 xhat = hn::Mul(centered, hn::Set(d, rstd[n]));
        to[0] = Fma(g, xhat, to[0]);
        to[1] = hn::Add(to[1], g);
      },
      [&](int64_t c, int64_t left, const VF32* total) HWY_ATTR {
        if (dgamma != nullptr) {
          PutTotals(total[0], dgamma + c, left, accumulate);
        }
        if (dbeta != nullptr) PutTotals(total[1], dbeta + c, left, accumulate);
      });
}

// The loops over rows [begin, begin + rows), or over columns from `begin` on.
void NormRowsImpl(DType dtype, int64_t begin, int64_t rows, int64_t channels,
                  float epsilon, const void* x, const void* gamma,
                  const void* beta, void* y, float* mean, float* rstd) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    NormRows(rows, channels, epsilon, At<T>(x, begin * channels),
             At<T>(gamma, 0), At<T>(beta, 0), At<T>(y, begin * channels),
             mean + begin, rstd + begin);
  });
}
void NormRowsBackwardImpl(DType dtype, int64_t begin, int64_t rows,
                          int64_t channels, const void* dy, const void* x,
                          const void* gamma, const float* mean,
                          const float* rstd, const void* residual, void* dx) {
  const int64_t first = begin * channels;
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    NormRowsBackward(rows, channels, At<T>(dy, first), At<T>(x, first),
                     At<T>(gamma, 0), mean + begin, rstd + begin,
                     At<T>(residual, first), At<T>(dx, first));
  });
}
void NormColumnsImpl(DType dtype, int64_t begin, int64_t rows, int64_t stride,
                     int64_t columns, const void* dy, const void* x,
                     const float* mean, const float* rstd, void* dgamma,
                     void* dbeta, bool accumulate) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    NormColumns(rows, stride, columns, At<T>(dy, begin), At<T>(x, begin), mean,
                rstd, At<T>(dgamma, begin), At<T>(dbeta, begin), accumulate);
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(NormRowsImpl);
HWY_EXPORT(NormRowsBackwardImpl);
HWY_EXPORT(NormColumnsImpl);
}  // namespace cpu

absl::Status LayerNormForwardArgs::RunOnCpu(const ExecContext& context) const {
  const int64_t channels = shape.channels;
  cpu::ParallelTiles(context, shape.rows, cpu::RowTile(channels),
                     [&](int64_t begin, int64_t end) {
                       CASTOR_CPU_DISPATCH(NormRowsImpl)
                       (shape.dtype, begin, end - begin, channels, epsilon, x,
                        gamma, beta, y, mean, rstd);
                     });
  return absl::OkStatus();
}

absl::Status LayerNormBackwardInputArgs::RunOnCpu(
    const ExecContext& context) const {
  const int64_t channels = shape.channels;
  cpu::ParallelTiles(context, shape.rows, cpu::RowTile(channels),
                     [&](int64_t begin, int64_t end) {
                       CASTOR_CPU_DISPATCH(NormRowsBackwardImpl)
                       (shape.dtype, begin, end - begin, channels, dy, x, gamma,
                        mean, rstd, residual, dx);
                     });
  return absl::OkStatus();
}

absl::Status LayerNormBackwardParametersArgs::RunOnCpu(
    const ExecContext& context) const {
  const int64_t channels = shape.channels;
  cpu::ParallelColumnTiles(context, shape.rows, channels,
                           [&](int64_t c, int64_t columns) {
                             CASTOR_CPU_DISPATCH(NormColumnsImpl)
                             (shape.dtype, c, shape.rows, channels, columns, dy,
                              x, mean, rstd, dgamma, dbeta, accumulate);
                           });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
