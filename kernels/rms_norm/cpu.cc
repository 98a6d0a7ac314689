#include <cmath>

#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/rms_norm/rms_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void RmsNormRows(int64_t rows, int64_t channels, float epsilon,
                            float offset, const T* x, const T* gamma, T* y,
                            float* rstd) {
  const F32 d;
  const VF32 shift = hn::Set(d, offset);
  const double count = static_cast<double>(channels);
  for (int64_t n = 0; n < rows; ++n, x += channels, y += channels) {
    const auto [squares] =
        SumRow<1>(channels, [&](int64_t c, int64_t left, VF32* to) HWY_ATTR {
          const VF32 v = LoadPart(x + c, left);
          to[0] = Fma(v, v, to[0]);
        });
    rstd[n] = static_cast<float>(
        1.0 / std::sqrt(static_cast<double>(squares) / count + epsilon));
    const VF32 scale = hn::Set(d, rstd[n]);
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t left = channels - c;
      const VF32 xhat = hn::Mul(LoadPart(x + c, left), scale);
      const VF32 gain = hn::Add(LoadPart(gamma + c, left), shift);
      StorePart(hn::Mul(xhat, gain), y + c, left);
    }
  }
}

template <class T>
HWY_INLINE void RmsNormRowsBackward(int64_t rows, int64_t channels,
                                    float offset, const T* dy, const T* x,
                                    const T* gamma, const float* rstd,
                                    const T* residual, T* dx) {
  const F32 d;
  const VF32 shift = hn::Set(d, offset);
  for (int64_t n = 0; n < rows; ++n, dy += channels, x += channels) {
    const VF32 scale = hn::Set(d, rstd[n]);
    // Calls f(w, xhat) for the vector at c. Behind the row's end both are 0.
    const auto terms = [&](int64_t c, int64_t left, const auto& f) HWY_ATTR {
      const VF32 gain = hn::Add(LoadPart(gamma + c, left), shift);
      const VF32 w = hn::Mul(LoadPart(dy + c, left), gain);
      f(w, hn::Mul(LoadPart(x + c, left), scale));
    };
    const auto [sum] =
        SumRow<1>(channels, [&](int64_t c, int64_t left, VF32* to) HWY_ATTR {
          terms(c, left, [&](VF32 w, VF32 xhat) HWY_ATTR {
            to[0] = Fma(w, xhat, to[0]);
          });
        });
    const VF32 mean =
        hn::Set(d, static_cast<float>(sum / static_cast<double>(channels)));
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t left = channels - c;
      const int64_t i = n * channels + c;
      terms(c, left, [&](VF32 w, VF32 xhat) HWY_ATTR {
        VF32 result = hn::Mul(scale, hn::Sub(w, hn::Mul(xhat, mean)));
        if (residual != nullptr) {
          result = hn::Add(result, LoadPart(residual + i, left));
        }
        StorePart(result, dx + i, left);
      });
    }
  }
}

// The loops over rows [begin, begin + rows), or over columns from `begin` on.
void RmsNormRowsImpl(DType dtype, int64_t begin, int64_t rows, int64_t channels,
                     float epsilon, float offset, const void* x,
                     const void* gamma, void* y, float* rstd) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    RmsNormRows(rows, channels, epsilon, offset, At<T>(x, begin * channels),
                At<T>(gamma, 0), At<T>(y, begin * channels), rstd + begin);
  });
}
void RmsNormRowsBackwardImpl(DType dtype, int64_t begin, int64_t rows,
                             int64_t channels, float offset, const void* dy,
                             const void* x, const void* gamma,
                             const float* rstd, const void* residual,
                             void* dx) {
  const int64_t first = begin * channels;
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    RmsNormRowsBackward(rows, channels, offset, At<T>(dy, first),
                        At<T>(x, first), At<T>(gamma, 0), rstd + begin,
                        At<T>(residual, first), At<T>(dx, first));
  });
}
void RmsNormColumnsImpl(DType dtype, int64_t begin, int64_t rows,
                        int64_t stride, int64_t columns, const void* dy,
                        const void* x, const float* rstd, void* dgamma,
                        bool accumulate) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    const F32 d;
    const T* from_dy = At<T>(dy, begin);
    const T* from_x = At<T>(x, begin);
    T* to = At<T>(dgamma, begin);
    SumColumns<1>(
        rows, columns,
        [&](int64_t n, int64_t c, int64_t left, VF32* sum) HWY_ATTR {
          const int64_t i = n * stride + c;
          const VF32 xhat =
              hn::Mul(LoadPart(from_x + i, left), hn::Set(d, rstd[n]));
          sum[0] = Fma(LoadPart(from_dy + i, left), xhat, sum[0]);
        },
        [&](int64_t c, int64_t left, const VF32* total)
            HWY_ATTR { PutTotals(total[0], to + c, left, accumulate); });
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(RmsNormRowsImpl);
HWY_EXPORT(RmsNormRowsBackwardImpl);
HWY_EXPORT(RmsNormColumnsImpl);
}  // namespace cpu

absl::Status RmsNormForwardArgs::RunOnCpu(const ExecContext& context) const {
  const int64_t channels = shape.channels;
  cpu::ParallelTiles(context, shape.rows, cpu::RowTile(channels),
                     [&](int64_t begin, int64_t end) {
                       CASTOR_CPU_DISPATCH(RmsNormRowsImpl)
                       (shape.dtype, begin, end - begin, channels, epsilon,
                        offset, x, gamma, y, rstd);
                     });
  return absl::OkStatus();
}

absl::Status RmsNormBackwardInputArgs::RunOnCpu(
    const ExecContext& context) const {
  const int64_t channels = shape.channels;
  cpu::ParallelTiles(context, shape.rows, cpu::RowTile(channels),
                     [&](int64_t begin, int64_t end) {
                       CASTOR_CPU_DISPATCH(RmsNormRowsBackwardImpl)
                       (shape.dtype, begin, end - begin, channels, offset, dy,
                        x, gamma, rstd, residual, dx);
                     });
  return absl::OkStatus();
}

absl::Status RmsNormBackwardParametersArgs::RunOnCpu(
    const ExecContext& context) const {
  cpu::ParallelColumnTiles(context, shape.rows, shape.channels,
                           [&](int64_t c, int64_t columns) {
                             CASTOR_CPU_DISPATCH(RmsNormColumnsImpl)
                             (shape.dtype, c, shape.rows, shape.channels,
                              columns, dy, x, rstd, dgamma, accumulate);
                           });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
