#include "kernels/cpu/dropout_mask.h"

#include <algorithm>

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout_mask.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/philox-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

void RandomWordsImpl(RandomKey key, uint64_t begin, int64_t size,
                     uint32_t* words) {
  FillRandomWords(key, begin, size, words);
}

void DropoutMaskImpl(RandomKey key, uint64_t begin, int64_t size,
                     uint32_t threshold, float scale, float* mask) {
  constexpr int64_t kBlock = 1024;  // words: 4 KiB of the first-level cache
  HWY_ALIGN uint32_t words[kBlock];
  const F32 d;
  const hn::RebindToUnsigned<F32> d32;
  const auto limit = hn::Set(d32, threshold);
  for (int64_t i = 0; i < size; i += kBlock) {
    const int64_t count = std::min(kBlock, size - i);
    RandomWordsImpl(key, begin + i, count, words);
    for (int64_t j = 0; j < count; j += kLanes) {
      const auto w = hn::Load(d32, words + j);
      const auto drop = hn::RebindMask(d, hn::Gt(limit, w));
      StorePart(hn::IfThenZeroElse(drop, hn::Set(d, scale)), mask + i + j,
                count - j);
    }
  }
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels::cpu {

HWY_EXPORT(RandomWordsImpl);
HWY_EXPORT(DropoutMaskImpl);

void RandomWords(RandomKey key, uint64_t begin, int64_t size, uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(RandomWordsImpl)(key, begin, size, words);
}

void DropoutMask(RandomKey key, uint64_t begin, int64_t size,
                 uint32_t threshold, float scale, float* mask) {
  HWY_DYNAMIC_DISPATCH(DropoutMaskImpl)
  (key, begin, size, threshold, scale, mask);
}

}  // namespace castor::kernels::cpu
#endif  // HWY_ONCE
