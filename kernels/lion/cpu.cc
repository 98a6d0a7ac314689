// These operations round, per element, in fp32 (fma: once; every other
// operation rounds on its own):
//
//   g = grad * grad_scale
//   c = fma(1 - beta1, g, m * beta1)
//   p = p * (1 - lr weight_decay)
//   p = p - lr, p + lr or p, as c is above, below or at 0
//   m = fma(1 - beta2, g, m * beta2)
#include <cstdint>

#include "kernels/cpu/targets.h"
#include "kernels/lion/lion.h"
#include "kernels/lion/lion_math.h"
#include "kernels/state_update/on_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lion/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"
#include "kernels/state_update/state_update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

struct LionStep {
  VF32 grad_scale, keep, lr, minus_lr, beta1, one_minus_beta1, beta2,
      one_minus_beta2;

  HWY_INLINE explicit LionStep(const LionScalars& s) {
    const F32 d;
    grad_scale = hn::Set(d, s.grad_scale);
    keep = hn::Set(d, s.keep);
    lr = hn::Set(d, s.lr);
    minus_lr = hn::Set(d, -s.lr);
    beta1 = hn::Set(d, s.beta1);
    one_minus_beta1 = hn::Set(d, s.one_minus_beta1);
    beta2 = hn::Set(d, s.beta2);
    one_minus_beta2 = hn::Set(d, s.one_minus_beta2);
  }

  HWY_INLINE void operator()(VF32 grad, VF32& p, VF32& m) const {
    const VF32 zero = hn::Zero(F32());
    const VF32 g = hn::Mul(grad, grad_scale);
    const VF32 c = Fma(one_minus_beta1, g, hn::Mul(m, beta1));
    const VF32 up = hn::IfThenElse(hn::Lt(c, zero), lr, zero);
    p = hn::Add(hn::Mul(p, keep),
                hn::IfThenElse(hn::Gt(c, zero), minus_lr, up));
    m = Fma(one_minus_beta2, g, hn::Mul(m, beta2));
  }
};

// Elements [begin, begin + size) of the arrays, of the given range.
void LionImpl(const LionArgs& args, const LionRange& range,
              const LionScalars& s, int64_t begin, int64_t size) {
  UpdateTiles<LionArgs::kStates>(args.arrays, range, begin, size, LionStep(s));
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(LionImpl);
}  // namespace cpu

absl::Status LionArgs::RunOnCpu(const ExecContext& context) const {
  return cpu::UpdateStates(
      context, arrays, kStates, ranges, num_ranges, MakeLionScalars,
      [&](const LionRange& range, const LionScalars& scalars, int64_t begin,
          int64_t size) {
        CASTOR_CPU_DISPATCH(LionImpl)(*this, range, scalars, begin, size);
      });
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
