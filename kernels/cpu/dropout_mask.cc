#include "kernels/cpu/dropout_mask.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout_mask.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

inline constexpr int64_t kBatch = 1;

HWY_INLINE void PhiloxBatch(RandomKey key, uint64_t counter, uint32_t* words) {
  const auto four = Philox4x32(key, counter);
  std::memcpy(words, four.data(), sizeof(four));
}

#else

// One counter per 64-bit lane: the multiplication reads the lower halves and
// gives whole products, so the upper halves may hold anything.
using U64 = hn::ScalableTag<uint64_t>;
using U32 = hn::Repartition<uint32_t, U64>;
using VU64 = hn::Vec<U64>;
inline constexpr int64_t kCounters = static_cast<int64_t>(hn::MaxLanes(U64()));
// Two vectors at once hide the multiplication's latency.
inline constexpr int64_t kBatch = 2 * kCounters;

struct PhiloxState {
  VU64 c0, c1, c2, c3;
};

HWY_INLINE void Round(PhiloxState& s, VU64 k0, VU64 k1) {
  const U64 d;
  const U32 d32;
  const auto m0 = hn::BitCast(d32, hn::Set(d, uint64_t{0xD2511F53u}));
  const auto m1 = hn::BitCast(d32, hn::Set(d, uint64_t{0xCD9E8D57u}));
  const VU64 p0 = hn::MulEven(hn::BitCast(d32, s.c0), m0);
  const VU64 p1 = hn::MulEven(hn::BitCast(d32, s.c2), m1);
  s.c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), s.c1), k0);
  s.c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), s.c3), k1);
  s.c1 = p1;
  s.c3 = p0;
}

HWY_INLINE void StoreWords(const PhiloxState& s, uint32_t* words) {
  const U64 d;
  const VU64 low = hn::Set(d, uint64_t{0xffffffffu});
  const VU64 w01 = hn::Or(hn::And(s.c0, low), hn::ShiftLeft<32>(s.c1));
  const VU64 w23 = hn::Or(hn::And(s.c2, low), hn::ShiftLeft<32>(s.c3));
  hn::StoreInterleaved2(w01, w23, d, reinterpret_cast<uint64_t*>(words));
}

// The 4 * kBatch words of counters [counter, counter + kBatch).
HWY_INLINE void PhiloxBatch(RandomKey key, uint64_t counter, uint32_t* words) {
  const U64 d;
  const VU64 index_a = hn::Iota(d, counter);
  const VU64 index_b =
      hn::Add(index_a, hn::Set(d, static_cast<uint64_t>(kCounters)));
  const VU64 stream = hn::Set(d, key.stream);
  const VU64 stream_high = hn::ShiftRight<32>(stream);
  PhiloxState a{index_a, hn::ShiftRight<32>(index_a), stream, stream_high};
  PhiloxState b{index_b, hn::ShiftRight<32>(index_b), stream, stream_high};
  uint32_t k0 = static_cast<uint32_t>(key.seed);
  uint32_t k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const VU64 v0 = hn::Set(d, uint64_t{k0});
    const VU64 v1 = hn::Set(d, uint64_t{k1});
    Round(a, v0, v1);
    Round(b, v0, v1);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  StoreWords(a, words);
  StoreWords(b, words + 4 * kCounters);
}

#endif  // HWY_TARGET == HWY_SCALAR

void RandomWordsImpl(RandomKey key, uint64_t begin, int64_t size,
                     uint32_t* words) {
  constexpr int64_t kWords = 4 * kBatch;
  uint64_t counter = begin / 4;
  const int64_t skip = static_cast<int64_t>(begin % 4);
  int64_t i = 0;
  if (skip != 0) {
    const auto four = Philox4x32(key, counter++);
    i = std::min<int64_t>(4 - skip, size);
    std::memcpy(words, four.data() + skip, i * sizeof(uint32_t));
  }
  for (; i + kWords <= size; i += kWords, counter += kBatch) {
    PhiloxBatch(key, counter, words + i);
  }
  if (i < size) {
    uint32_t rest[kWords];
    PhiloxBatch(key, counter, rest);
    std::memcpy(words + i, rest, (size - i) * sizeof(uint32_t));
  }
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
