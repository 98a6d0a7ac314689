#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/gradient_sum/gradient_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient_sum/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void Accumulate(int64_t size, T* payload, float* sum,
                           const float* master, bool assign, bool restore) {
  for (int64_t i = 0; i < size; i += kLanes) {
    const int64_t left = size - i;
    VF32 g = LoadPart(payload + i, left);
    if (!assign) g = hn::Add(LoadPart(sum + i, left), g);
    StorePart(g, sum + i, left);
    if (restore) StorePart(LoadPart(master + i, left), payload + i, left);
  }
}
// Elements [begin, begin + size) of the arrays.
void AccumulateImpl(DType dtype, int64_t begin, int64_t size, void* payload,
                    float* sum, const float* master, bool assign,
                    bool restore) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    Accumulate(size, At<T>(payload, begin), sum + begin,
               At<float>(master, begin), assign, restore);
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(AccumulateImpl);
}  // namespace cpu

absl::Status AccumulateGradientArgs::RunOnCpu(
    const ExecContext& context) const {
  cpu::ParallelTiles(context, size, cpu::kElementTile,
                     [&](int64_t begin, int64_t end) {
                       CASTOR_CPU_DISPATCH(AccumulateImpl)
                       (dtype, begin, end - begin, payload, sum,
                        restore ? master : nullptr, assign, restore);
                     });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
