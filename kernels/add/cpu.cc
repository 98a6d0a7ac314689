#include "kernels/add/add.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/add/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

struct AddOp {
  HWY_INLINE VF32 operator()(VF32 a, VF32 b) const { return hn::Add(a, b); }
};

// Elements [begin, begin + size) of arrays of `dtype`.
void AddImpl(DType dtype, int64_t begin, int64_t size, const void* a,
             const void* b, void* y) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    Map(AddOp(), size, At<T>(y, begin), At<T>(a, begin), At<T>(b, begin));
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(AddImpl);
}  // namespace cpu

absl::Status AddArgs::RunOnCpu(const ExecContext& context) const {
  cpu::ParallelTiles(
      context, size, cpu::kElementTile, [&](int64_t begin, int64_t end) {
        CASTOR_CPU_DISPATCH(AddImpl)(dtype, begin, end - begin, a, b, y);
      });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
