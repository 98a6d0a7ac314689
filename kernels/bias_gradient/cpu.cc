#include "kernels/bias_gradient/bias_gradient.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bias_gradient/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// db[c] (+)= sum over rows of dy[n, c] for up to kColumnTile columns from
// `begin` on.
void SumBiasImpl(DType dtype, int64_t begin, int64_t rows, int64_t stride,
                 int64_t columns, const void* dy, void* db, bool accumulate) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    const T* from = At<T>(dy, begin);
    T* to = At<T>(db, begin);
    SumColumns<1>(
        rows, columns,
        [&](int64_t n, int64_t c, int64_t left, VF32* sum) HWY_ATTR {
          sum[0] = hn::Add(sum[0], LoadPart(from + n * stride + c, left));
        },
        [&](int64_t c, int64_t left, const VF32* total)
            HWY_ATTR { PutTotals(total[0], to + c, left, accumulate); });
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(SumBiasImpl);
}  // namespace cpu

absl::Status BiasGradientArgs::RunOnCpu(const ExecContext& context) const {
  cpu::ParallelColumnTiles(
      context, rows, channels, [&](int64_t c, int64_t columns) {
        CASTOR_CPU_DISPATCH(SumBiasImpl)
        (dtype, c, rows, channels, columns, dy, db, accumulate);
      });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
