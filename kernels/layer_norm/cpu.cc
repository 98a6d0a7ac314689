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

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// Two passes, the second correcting the first: with the rounded mean m of the
// first, s = sum(x - m) is what the rounding left over, and
// mean = m + s / C, variance = (sum (x - m)^2 - s^2 / C) / C. A large mean
// costs no digits.
template <class T>
HWY_INLINE void RowMoments(int64_t channels, const T* x, float* mean,
                           float* variance) {
  constexpr int64_t kBlock = LaneSum::kPartial;
  const F32 d;
  LaneSum sum;
  int64_t c = 0;
  for (; c + kBlock <= channels; c += kBlock) {
    for (int64_t v = 0; v < LaneSum::kVectors; ++v) {
      sum[v] = hn::Add(sum[v], Load(x + c + v * kLanes));
    }
  }
  for (int64_t v = 0; c < channels; c += kLanes, ++v) {
    sum[v] = hn::Add(sum[v], LoadPart(x + c, channels - c));
  }
  const float m = static_cast<float>(static_cast<double>(sum.Total()) /
                                     static_cast<double>(channels));

  const VF32 center = hn::Set(d, m);
  LaneSum first, second;
  for (c = 0; c + kBlock <= channels; c += kBlock) {
    for (int64_t v = 0; v < LaneSum::kVectors; ++v) {
      const VF32 e = hn::Sub(Load(x + c + v * kLanes), center);
      first[v] = hn::Add(first[v], e);
      second[v] = Fma(e, e, second[v]);
    }
  }
  for (int64_t v = 0; c < channels; c += kLanes, ++v) {
    // The padding adds nothing.
    VF32 e = hn::Sub(LoadPart(x + c, channels - c), center);
    const auto inside = hn::FirstN(d, static_cast<size_t>(channels - c));
    e = hn::IfThenElseZero(inside, e);
    first[v] = hn::Add(first[v], e);
    second[v] = Fma(e, e, second[v]);
  }
  const double count = static_cast<double>(channels);
  const double s1 = first.Total();
  const double s2 = second.Total();
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
  constexpr int64_t kBlock = LaneSum::kPartial;
  const F32 d;
  const double count = static_cast<double>(channels);
  for (int64_t n = 0; n < rows; ++n) {
    const T* dy_row = dy + n * channels;
    const T* x_row = x + n * channels;
    const VF32 center = hn::Set(d, mean[n]);
    const VF32 scale = hn::Set(d, rstd[n]);
    LaneSum w_sum, wx_sum;
    int64_t c = 0;
    for (; c + kBlock <= channels; c += kBlock) {
      for (int64_t v = 0; v < LaneSum::kVectors; ++v) {
        const int64_t i = c + v * kLanes;
        const VF32 w = hn::Mul(Load(dy_row + i), Load(gamma + i));
        const VF32 xhat = hn::Mul(hn::Sub(Load(x_row + i), center), scale);
        w_sum[v] = hn::Add(w_sum[v], w);
        wx_sum[v] = Fma(w, xhat, wx_sum[v]);
      }
    }
    for (int64_t v = 0; c < channels; c += kLanes, ++v) {
      const int64_t left = channels - c;
      // The padding's w is 0.
      const VF32 w =
          hn::Mul(LoadPart(dy_row + c, left), LoadPart(gamma + c, left));
      const VF32 xhat =
          hn::Mul(hn::Sub(LoadPart(x_row + c, left), center), scale);
      w_sum[v] = hn::Add(w_sum[v], w);
      wx_sum[v] = Fma(w, xhat, wx_sum[v]);
    }
    const VF32 w_mean = hn::Set(d, static_cast<float>(w_sum.Total() / count));
    const VF32 wx_mean = hn::Set(d, static_cast<float>(wx_sum.Total() / count));
    T* dx_row = dx + n * channels;
    for (c = 0; c < channels; c += kLanes) {
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

// dgamma and dbeta of up to kColumnTile columns, in the order of SumColumns
// (kernels/bias_gradient/cpu.cc).
template <class T>
HWY_INLINE void NormColumns(int64_t rows, int64_t stride, int64_t columns,
                            const T* dy, const T* x, const float* mean,
                            const float* rstd, T* dgamma, T* dbeta,
                            bool accumulate) {
  constexpr int64_t kVectors = kColumnTile / kLanes;
  const F32 d;
  VF32 gamma_total[kVectors], beta_total[kVectors];
  for (int64_t v = 0; v < kVectors; ++v) {
    gamma_total[v] = beta_total[v] = hn::Zero(d);
  }
  for (int64_t begin = 0; begin < rows; begin += kSumRows) {
    VF32 gamma_sum[kVectors], beta_sum[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      gamma_sum[v] = beta_sum[v] = hn::Zero(d);
    }
    const int64_t end = HWY_MIN(rows, begin + kSumRows);
    for (int64_t n = begin; n < end; ++n) {
      const T* dy_row = dy + n * stride;
      const T* x_row = x + n * stride;
      const VF32 center = hn::Set(d, mean[n]);
      const VF32 scale = hn::Set(d, rstd[n]);
      if (columns == kColumnTile) {
        for (int64_t v = 0; v < kVectors; ++v) {
          const VF32 g = Load(dy_row + v * kLanes);
          const VF32 xhat =
              hn::Mul(hn::Sub(Load(x_row + v * kLanes), center), scale);
          beta_sum[v] = hn::Add(beta_sum[v], g);
          gamma_sum[v] = Fma(g, xhat, gamma_sum[v]);
        }
      } else {
        for (int64_t v = 0; v * kLanes < columns; ++v) {
          const int64_t left = columns - v * kLanes;
          const VF32 g = LoadPart(dy_row + v * kLanes, left);
          const VF32 xhat = hn::Mul(
              hn::Sub(LoadPart(x_row + v * kLanes, left), center), scale);
          beta_sum[v] = hn::Add(beta_sum[v], g);
          gamma_sum[v] = Fma(g, xhat, gamma_sum[v]);
        }
      }
    }
    for (int64_t v = 0; v < kVectors; ++v) {
      gamma_total[v] = hn::Add(gamma_total[v], gamma_sum[v]);
      beta_total[v] = hn::Add(beta_total[v], beta_sum[v]);
    }
  }
  for (int64_t v = 0; v * kLanes < columns; ++v) {
    const int64_t left = columns - v * kLanes;
    if (dgamma != nullptr) {
      T* out = dgamma + v * kLanes;
      if (accumulate) {
        gamma_total[v] = hn::Add(LoadPart(out, left), gamma_total[v]);
      }
      StorePart(gamma_total[v], out, left);
    }
    if (dbeta != nullptr) {
      T* out = dbeta + v * kLanes;
      if (accumulate) {
        beta_total[v] = hn::Add(LoadPart(out, left), beta_total[v]);
      }
      StorePart(beta_total[v], out, left);
    }
  }
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
  cpu::ParallelTiles(context, channels, cpu::ColumnsPerTask(shape.rows),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t c = begin; c < end; c += cpu::kColumnTile) {
                         const int64_t columns =
                             std::min(cpu::kColumnTile, end - c);
                         CASTOR_CPU_DISPATCH(NormColumnsImpl)
                         (shape.dtype, c, shape.rows, channels, columns, dy, x,
                          mean, rstd, dgamma, dbeta, accumulate);
                       }
                     });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
