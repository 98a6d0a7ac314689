// These operations round, per element, in fp32 (fma: once; every other
// operation rounds on its own):
//
//   g = fma(weight_decay, p, grad * grad_scale)
//   with momentum:  buf = fma(1 - dampening, g, buf * momentum)
//                   (in the first step 1, not 1 - dampening)
//   d = g without momentum, buf with it, with nesterov fma(momentum, buf, g)
//   p = fma(-lr, d, p)
#include <cstdint>

#include "kernels/cpu/targets.h"
#include "kernels/sgd/sgd.h"
#include "kernels/sgd/sgd_math.h"
#include "kernels/state_update/on_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sgd/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"
#include "kernels/state_update/state_update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

template <SgdRule kRule>
struct SgdStep {
  VF32 grad_scale, weight_decay, momentum, add, minus_lr;

  HWY_INLINE explicit SgdStep(const SgdScalars& s) {
    const F32 d;
    grad_scale = hn::Set(d, s.grad_scale);
    weight_decay = hn::Set(d, s.weight_decay);
    momentum = hn::Set(d, s.momentum);
    add = hn::Set(d, s.add);
    minus_lr = hn::Set(d, s.minus_lr);
  }

  HWY_INLINE void operator()(VF32 grad, VF32& p, VF32& buf) const {
    const VF32 g = Fma(weight_decay, p, hn::Mul(grad, grad_scale));
    VF32 direction = g;
    if constexpr (kRule != SgdRule::kPlain) {
      buf = Fma(add, g, hn::Mul(buf, momentum));
      direction = kRule == SgdRule::kNesterov ? Fma(momentum, buf, g) : buf;
    }
    p = Fma(minus_lr, direction, p);
  }
};

// Elements [begin, begin + size) of the arrays, of the given range.
void SgdImpl(const SgdArgs& args, const SgdRange& range, const SgdScalars& s,
             int64_t begin, int64_t size) {
  const auto update = [&]<SgdRule kRule>() HWY_ATTR {
    UpdateTiles<SgdArgs::kStates>(args.arrays, range, begin, size,
                                  SgdStep<kRule>(s));
  };
  switch (s.rule) {
    case SgdRule::kMomentum:
      return update.template operator()<SgdRule::kMomentum>();
    case SgdRule::kNesterov:
      return update.template operator()<SgdRule::kNesterov>();
    case SgdRule::kPlain:
      return update.template operator()<SgdRule::kPlain>();
  }
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(SgdImpl);
}  // namespace cpu

absl::Status SgdArgs::RunOnCpu(const ExecContext& context) const {
  return cpu::UpdateStates(context, arrays, arrays.bits == 0 ? 0 : kStates,
                           ranges, num_ranges, MakeSgdScalars,
                           [&](const SgdRange& range, const SgdScalars& scalars,
                               int64_t begin, int64_t size) {
                             CASTOR_CPU_DISPATCH(SgdImpl)
                             (*this, range, scalars, begin, size);
                           });
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
