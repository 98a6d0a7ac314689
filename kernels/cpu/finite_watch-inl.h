// Looks for values that are not finite in a vector's lanes. Included once for
// each target of the processor, behind kernels/cpu/simd-inl.h.
#if defined(CASTOR_KERNELS_CPU_FINITE_WATCH_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_KERNELS_CPU_FINITE_WATCH_INL_H_
#undef CASTOR_KERNELS_CPU_FINITE_WATCH_INL_H_
#else
#define CASTOR_KERNELS_CPU_FINITE_WATCH_INL_H_
#endif

#include <cstdint>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// Checks that all values that it sees are finite, at the cost of one operation
// for each: 0 times a value that is not finite is NaN.
class FiniteWatch {
 public:
  HWY_INLINE FiniteWatch() { zeros_ = hn::Zero(F32()); }
  HWY_INLINE void See(VF32 x) { zeros_ = Fma(x, hn::Zero(F32()), zeros_); }
  // Sees the first `count` lanes.
  HWY_INLINE void SeePart(VF32 x, int64_t count) {
    See(hn::IfThenElseZero(hn::FirstN(F32(), static_cast<size_t>(count)), x));
  }
  HWY_INLINE bool all_finite() const {
    const F32 d;
    return hn::AllTrue(d, hn::Eq(zeros_, hn::Zero(d)));
  }

 private:
  VF32 zeros_;
};

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // CASTOR_KERNELS_CPU_FINITE_WATCH_INL_H_
