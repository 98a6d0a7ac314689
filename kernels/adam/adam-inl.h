// An element's update in a vector's lanes (the head of kernels/adam/cpu.cc has
// the list of roundings). Included once for each target of the processor,
// behind kernels/cpu/simd-inl.h.
#if defined(CASTOR_KERNELS_ADAM_ADAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_KERNELS_ADAM_ADAM_INL_H_
#undef CASTOR_KERNELS_ADAM_ADAM_INL_H_
#else
#define CASTOR_KERNELS_ADAM_ADAM_INL_H_
#endif

#include "kernels/adam/adam_math.h"
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

  // The update in its parts, for a loop that does other work while it waits for
  // a part's root or division. Start makes the new moments, and p without its
  // change, and returns the root of v.
  HWY_INLINE VF32 Start(VF32 grad, VF32& p, VF32& m, VF32& v) const {
    VF32 g = hn::Mul(grad, grad_scale);
    if constexpr (kL2) {
      g = Fma(weight_decay, p, g);
    } else {
      p = hn::Mul(p, keep);
    }
    moments(g, m, v);
    return hn::Sqrt(v);
  }
  HWY_INLINE VF32 Denominator(VF32 root) const {
    return hn::Add(hn::Div(root, correction2_sqrt), eps);
  }
  HWY_INLINE VF32 Change(VF32 m, VF32 denominator) const {
    return hn::Div(hn::Mul(minus_step_size, m), denominator);
  }

  HWY_INLINE void operator()(VF32 grad, VF32& p, VF32& m, VF32& v) const {
    const VF32 root = Start(grad, p, m, v);
    const VF32 denominator = Denominator(root);
    p = hn::Add(p, Change(m, denominator));
  }
};

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // CASTOR_KERNELS_ADAM_ADAM_INL_H_
