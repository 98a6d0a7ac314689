// Which operations round, per element, in fp32 (fma: once; every other
// operation rounds on its own):
//
//   g = grad * grad_scale
//   L2 decay:   g = fma(weight_decay, p, g)
//   decoupled:  p = p * (1 - lr weight_decay)
//   m, v: kernels/adam/moments.h
//   p = p + (-step_size * m) / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//
// step_size = lr / (1 - beta1^t). Every coefficient (-step_size, ...) is formed
// in double and rounded to fp32, as PyTorch does with the scalars of a float
// tensor's operation.
#include <cmath>
#include <vector>

#include "kernels/adam/adam.h"
#include "kernels/adam/adam_math.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/range_pieces.h"
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adam/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/adam/moments-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

template <bool kL2, bool kLerpFromM>
struct AdamStep {
  MomentsStep<kLerpFromM> moments;
  VF32 grad_scale, weight_decay, keep, minus_step_size, correction2_sqrt, eps;

  HWY_INLINE explicit AdamStep(const AdamScalars& s) : moments(s.moments) {
    const F32 d;
    grad_scale = hn::Set(d, s.grad_scale);
    weight_decay = hn::Set(d, s.weight_decay);
    keep = hn::Set(d, s.keep);
    minus_step_size = hn::Set(d, s.minus_step_size);
    correction2_sqrt = hn::Set(d, s.correction2_sqrt);
    eps = hn::Set(d, s.eps);
  }

  HWY_INLINE void operator()(VF32 grad, VF32& p, VF32& m, VF32& v) const {
    VF32 g = hn::Mul(grad, grad_scale);
    if constexpr (kL2) {
      g = Fma(weight_decay, p, g);
    } else {
      p = hn::Mul(p, keep);
    }
    moments(g, m, v);
    const VF32 denominator =
        hn::Add(hn::Div(hn::Sqrt(v), correction2_sqrt), eps);
    p = hn::Add(p, hn::Div(hn::Mul(minus_step_size, m), denominator));
  }
};

// One pass: 16 (fp32) or 14 (bf16, fp16) bytes in and as many out per element,
// less where the gradient's own memory is written only. Prefetching and
// unrolling were tried and measured no faster: memory is the limit, not the
// loop (an AVX-512 core updates 4 to 5 elements per ns from its cache, 2 from
// memory).
template <bool kL2, bool kLerpFromM, class TG, class TP>
HWY_INLINE void AdamLoop(const AdamScalars& scalars, int64_t size,
                         const TG* grad, TP* payload, float* master, float* m,
                         float* v) {
  const AdamStep<kL2, kLerpFromM> step(scalars);
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    VF32 vp = Load(master + i);
    VF32 vm = Load(m + i);
    VF32 vv = Load(v + i);
    step(Load(grad + i), vp, vm, vv);
    Store(vm, m + i);
    Store(vv, v + i);
    Store(vp, master + i);
    Store(vp, payload + i);
  }
  if (i < size) {
    const int64_t left = size - i;
    VF32 vp = LoadPart(master + i, left);
    VF32 vm = LoadPart(m + i, left);
    VF32 vv = LoadPart(v + i, left);
    step(LoadPart(grad + i, left), vp, vm, vv);
    StorePart(vm, m + i, left);
    StorePart(vv, v + i, left);
    StorePart(vp, master + i, left);
    StorePart(vp, payload + i, left);
  }
}

template <class TG, class TP>
HWY_INLINE void AdamAny(const AdamScalars& s, int64_t size, const TG* grad,
                        TP* payload, float* master, float* m, float* v) {
  if (s.l2) {
    if (s.moments.lerp_from_m) {
      AdamLoop<true, true>(s, size, grad, payload, master, m, v);
    } else {
      AdamLoop<true, false>(s, size, grad, payload, master, m, v);
    }
  } else if (s.moments.lerp_from_m) {
    AdamLoop<false, true>(s, size, grad, payload, master, m, v);
  } else {
    AdamLoop<false, false>(s, size, grad, payload, master, m, v);
  }
}

// Elements [begin, begin + size) of the arrays. `sum` null: the gradient is in
// `payload`.
void AdamImpl(DType dtype, const AdamScalars& s, int64_t begin, int64_t size,
              const float* sum, void* payload, float* master, float* m,
              float* v) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    T* to = At<T>(payload, begin);
    if (sum != nullptr) {
      AdamAny(s, size, sum + begin, to, master + begin, m + begin, v + begin);
    } else {
      AdamAny(s, size, to, to, master + begin, m + begin, v + begin);
    }
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(AdamImpl);
}  // namespace cpu

absl::Status AdamArgs::RunOnCpu(const ExecContext& context) const {
  if (num_ranges == 0) return absl::OkStatus();
  const bool skip = !std::isfinite(*grad_scale);
  std::vector<AdamScalars> scalars(num_ranges);
  for (int64_t r = 0; r < num_ranges; ++r) {
    scalars[r] = MakeAdamScalars(ranges[r].hyper);
    scalars[r].grad_scale = *grad_scale;
  }
  cpu::ParallelPieces(context, ranges, num_ranges,
                      [&](int64_t r, int64_t begin, int64_t end) {
                        if (skip) {
                          cpu::FromFloat(dtype, master + begin, end - begin,
                                         cpu::Offset(dtype, payload, begin));
                          return;
                        }
                        CASTOR_CPU_DISPATCH(AdamImpl)
                        (dtype, scalars[r], begin, end - begin, gradient_sum,
                         payload, master, m, v);
                      });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
