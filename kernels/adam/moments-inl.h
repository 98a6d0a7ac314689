// The moments in a vector's lanes (kernels/adam/moments.h). Included once for
// each target of the processor, behind kernels/cpu/simd-inl.h.
#if defined(CASTOR_KERNELS_ADAM_MOMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_KERNELS_ADAM_MOMENTS_INL_H_
#undef CASTOR_KERNELS_ADAM_MOMENTS_INL_H_
#else
#define CASTOR_KERNELS_ADAM_MOMENTS_INL_H_
#endif

#include "kernels/adam/moments.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

template <bool kLerpFromM>
struct MomentsStep {
  VF32 lerp_weight, beta2, one_minus_beta2;

  HWY_INLINE explicit MomentsStep(const MomentScalars& s) {
    const F32 d;
    lerp_weight = hn::Set(d, s.lerp_weight);
    beta2 = hn::Set(d, s.beta2);
    one_minus_beta2 = hn::Set(d, s.one_minus_beta2);
  }

  // Adds gradients g, which are scaled already.
  HWY_INLINE void operator()(VF32 g, VF32& m, VF32& v) const {
    m = Fma(lerp_weight, hn::Sub(g, m), kLerpFromM ? m : g);
    v = Fma(hn::Mul(one_minus_beta2, g), g, hn::Mul(v, beta2));
  }
};

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // CASTOR_KERNELS_ADAM_MOMENTS_INL_H_
