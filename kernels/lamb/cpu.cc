// These operations round, per element, in fp32 (fma: once; every other
// operation rounds on its own):
//
//   g = grad * grad_scale
//   m, v: kernels/adam/moments.h
//   u = (m * (1 / (1 - beta1^t))) / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//   u = fma(weight_decay, p, u)
//   p = fma(-lr * ratio, u, p)
//
// Every coefficient (1 / (1 - beta1^t), -lr * ratio, ...) is formed in double
// and rounded to fp32.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/range_pieces.h"
#include "kernels/cpu/targets.h"
#include "kernels/lamb/lamb.h"
#include "kernels/lamb/lamb_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lamb/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/adam/moments-inl.h"
#include "kernels/cpu/finite_watch-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// u of the moments and the parameter.
struct LambDirection {
  VF32 correction1_inverse, correction2_sqrt, eps, weight_decay;

  HWY_INLINE explicit LambDirection(const LambScalars& s) {
    const F32 d;
    correction1_inverse = hn::Set(d, s.correction1_inverse);
    correction2_sqrt = hn::Set(d, s.correction2_sqrt);
    eps = hn::Set(d, s.eps);
    weight_decay = hn::Set(d, s.weight_decay);
  }

  HWY_INLINE VF32 operator()(VF32 p, VF32 m, VF32 v) const {
    const VF32 denominator =
        hn::Add(hn::Div(hn::Sqrt(v), correction2_sqrt), eps);
    return Fma(weight_decay, p,
               hn::Div(hn::Mul(m, correction1_inverse), denominator));
  }
};

// Returns whether all v are finite: where an m is not, its v is not either.
template <bool kLerpFromM, class TG>
HWY_INLINE bool LambMoments(const LambScalars& s, float grad_scale,
                            int64_t size, const TG* grad, const float* master,
                            float* m, float* v, float* u) {
  const VF32 scale = hn::Set(F32(), grad_scale);
  const MomentsStep<kLerpFromM> moments(s.moments);
  const LambDirection direction(s);
  FiniteWatch watch;
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    VF32 vm = Load(m + i);
    VF32 vv = Load(v + i);
    moments(hn::Mul(Load(grad + i), scale), vm, vv);
    watch.See(vv);
    Store(vm, m + i);
    Store(vv, v + i);
    Store(direction(Load(master + i), vm, vv), u + i);
  }
  if (i < size) {
    const int64_t left = size - i;
    VF32 vm = LoadPart(m + i, left);
    VF32 vv = LoadPart(v + i, left);
    moments(hn::Mul(LoadPart(grad + i, left), scale), vm, vv);
    watch.SeePart(vv, left);
    StorePart(vm, m + i, left);
    StorePart(vv, v + i, left);
    StorePart(direction(LoadPart(master + i, left), vm, vv), u + i, left);
  }
  return watch.all_finite();
}

template <class TG>
HWY_INLINE bool LambMomentsAny(const LambScalars& s, float grad_scale,
                               int64_t size, const TG* grad,
                               const float* master, float* m, float* v,
                               float* u) {
  return s.moments.lerp_from_m
             ? LambMoments<true>(s, grad_scale, size, grad, master, m, v, u)
             : LambMoments<false>(s, grad_scale, size, grad, master, m, v, u);
}

// Elements [begin, begin + size) of the arrays, but u's from 0 on. `sum` null:
// the gradient is in `payload`. Marks *not_finite where a moment is not.
void LambMeasureImpl(DType dtype, const LambScalars& s, float grad_scale,
                     int64_t begin, int64_t size, const float* sum,
                     const void* payload, const float* master, float* m,
                     float* v, float* u, int32_t* not_finite) {
  bool finite = true;
  if (sum != nullptr) {
    finite = LambMomentsAny(s, grad_scale, size, sum + begin, master + begin,
                            m + begin, v + begin, u);
  } else {
    WithType(dtype, [&]<class T>(T) HWY_ATTR {
      finite = LambMomentsAny(s, grad_scale, size, At<T>(payload, begin),
                              master + begin, m + begin, v + begin, u);
    });
  }
  if (!finite) Mark(not_finite);
}

// Marks *not_finite where a parameter is not finite then.
void LambApplyImpl(DType dtype, const LambScalars& s, float step_size,
                   int64_t begin, int64_t size, void* payload, float* master,
                   const float* m, const float* v, int32_t* not_finite) {
  const LambDirection direction(s);
  const VF32 step = hn::Set(F32(), step_size);
  master += begin;
  m += begin;
  v += begin;
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    T* const to = At<T>(payload, begin);
    FiniteWatch watch;
    int64_t i = 0;
    for (; i + kLanes <= size; i += kLanes) {
      VF32 p = Load(master + i);
      p = Fma(step, direction(p, Load(m + i), Load(v + i)), p);
      watch.See(p);
      Store(p, master + i);
      Store(p, to + i);
    }
    if (i < size) {
      const int64_t left = size - i;
      VF32 p = LoadPart(master + i, left);
      p = Fma(step, direction(p, LoadPart(m + i, left), LoadPart(v + i, left)),
              p);
      watch.SeePart(p, left);
      StorePart(p, master + i, left);
      StorePart(p, to + i, left);
    }
    if (!watch.all_finite()) Mark(not_finite);
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(LambMeasureImpl);
HWY_EXPORT(LambApplyImpl);
}  // namespace cpu

absl::Status LambMeasureArgs::RunOnCpu(const ExecContext& context) const {
  if (num_ranges == 0 || !std::isfinite(*grad_scale)) return absl::OkStatus();
  static_assert(cpu::kPieceGranule % kNormTile == 0);
  const std::vector<LambScalars> scalars =
      cpu::ScalarsOf(ranges, num_ranges, MakeLambScalars);
  std::mutex mutex;  // of sums; the order of tasks does not matter
  cpu::ParallelPieces(
      context, ranges, num_ranges, [&](int64_t r, int64_t begin, int64_t end) {
        constexpr int64_t kAtOnce = 64 * kNormTile;
        float u[kAtOnce];
        ExactSum local[kLambSums];
        for (int64_t i = begin; i < end; i += kAtOnce) {
          const int64_t size = std::min(kAtOnce, end - i);
          CASTOR_CPU_DISPATCH(LambMeasureImpl)
          (dtype, scalars[r], *grad_scale, i, size, gradient_sum, payload,
           master, m, v, u, not_finite);
          AddTilesSquares(DType::kFloat32, size, master + i,
                          &local[kLambParameter]);
          AddTilesSquares(DType::kFloat32, size, u, &local[kLambUpdate]);
        }
        std::lock_guard<std::mutex> lock(mutex);
        for (int k = 0; k < kLambSums; ++k) {
          sums[scalars[r].first_sum + k].Add(local[k]);
        }
      });
  return absl::OkStatus();
}

absl::Status LambApplyArgs::RunOnCpu(const ExecContext& context) const {
  if (num_ranges == 0) return absl::OkStatus();
  const bool skip = !std::isfinite(*grad_scale);
  const std::vector<LambScalars> scalars =
      cpu::ScalarsOf(ranges, num_ranges, MakeLambScalars);
  cpu::ParallelPieces(
      context, ranges, num_ranges, [&](int64_t r, int64_t begin, int64_t end) {
        if (skip) {
          cpu::FromFloat(dtype, master + begin, end - begin,
                         cpu::Offset(dtype, payload, begin));
          return;
        }
        const double* const of = sums + scalars[r].first_sum;
        CASTOR_CPU_DISPATCH(LambApplyImpl)
        (dtype, scalars[r],
         LambStepSize(scalars[r], of[kLambParameter], of[kLambUpdate]), begin,
         end - begin, payload, master, m, v, not_finite);
      });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
