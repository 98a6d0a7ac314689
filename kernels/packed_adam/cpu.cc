#include <cstdint>

#include "kernels/adam/adam_math.h"
#include "kernels/cpu/targets.h"
#include "kernels/packed_adam/packed_adam.h"
#include "kernels/state_update/on_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/packed_adam/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/adam/adam-inl.h"
#include "kernels/state_update/state_update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// Elements [begin, begin + size) of the arrays, of the given range.
void PackedAdamImpl(const PackedAdamArgs& args, const PackedAdamRange& range,
                    const AdamScalars& s, int64_t begin, int64_t size) {
  const auto update = [&]<bool kL2, bool kLerpFromM>() HWY_ATTR {
    UpdateTiles<2>(args.arrays, range, begin, size,
                   AdamStep<kL2, kLerpFromM>(s));
  };
  if (s.l2) {
    return s.moments.lerp_from_m ? update.template operator()<true, true>()
                                 : update.template operator()<true, false>();
  }
  return s.moments.lerp_from_m ? update.template operator()<false, true>()
                               : update.template operator()<false, false>();
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(PackedAdamImpl);
}  // namespace cpu

absl::Status PackedAdamArgs::RunOnCpu(const ExecContext& context) const {
  return cpu::UpdateStates(
      context, arrays, kStates, ranges, num_ranges, MakeAdamScalars,
      [&](const PackedAdamRange& range, const AdamScalars& scalars,
          int64_t begin, int64_t size) {
        CASTOR_CPU_DISPATCH(PackedAdamImpl)(*this, range, scalars, begin, size);
      });
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
