#include <algorithm>

#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/dropout/dropout.h"
#include "kernels/dropout/without_dropout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// y[i] = (words[i] >= threshold ? x[i] * scale : 0) (+ residual[i]).
template <class T>
HWY_INLINE void ApplyDropout(int64_t size, const uint32_t* words,
                             uint32_t threshold, float scale, const T* x,
                             const T* residual, T* y) {
  const F32 d;
  const hn::RebindToUnsigned<F32> d32;
  const auto limit = hn::Set(d32, threshold);
  const VF32 factor = hn::Set(d, scale);
  for (int64_t i = 0; i < size; i += kLanes) {
    const int64_t count = size - i;
    const auto drop =
        hn::RebindMask(d, hn::Gt(limit, hn::LoadU(d32, words + i)));
    VF32 v = hn::IfThenZeroElse(drop, hn::Mul(LoadPart(x + i, count), factor));
    if (residual != nullptr) v = hn::Add(v, LoadPart(residual + i, count));
    StorePart(v, y + i, count);
  }
}
void ApplyDropoutImpl(DType dtype, int64_t begin, int64_t size,
                      const uint32_t* words, uint32_t threshold, float scale,
                      const void* x, const void* residual, void* y) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    ApplyDropout(size, words, threshold, scale, At<T>(x, begin),
                 At<T>(residual, begin), At<T>(y, begin));
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(ApplyDropoutImpl);
}  // namespace cpu

absl::Status DropoutArgs::RunOnCpu(const ExecContext& context) const {
  if (probability == 0.0f) {
    return WithoutDropout(
        *this, [&](const auto& args) { return args.RunOnCpu(context); });
  }
  const uint32_t threshold = DropoutThreshold(probability);
  const float scale = DropoutScale(probability);
  cpu::ParallelTiles(
      context, size, cpu::kElementTile, [&](int64_t begin, int64_t end) {
        // 4 KiB of words at a time, which stay in the first-level cache; the
        // slack is for a last, partial vector.
        constexpr int64_t kBlock = 1024;
        uint32_t words[kBlock + 16] = {};
        for (int64_t i = begin; i < end; i += kBlock) {
          const int64_t count = std::min(kBlock, end - i);
          cpu::RandomWords(key, static_cast<uint64_t>(i), count, words);
          CASTOR_CPU_DISPATCH(ApplyDropoutImpl)
          (dtype, i, count, words, threshold, scale, x, residual, y);
        }
      });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
