// Random words in vectors' lanes (base/philox.h). Included once for each target
// of the processor, behind kernels/cpu/simd-inl.h.
#if defined(CASTOR_KERNELS_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_KERNELS_CPU_PHILOX_INL_H_
#undef CASTOR_KERNELS_CPU_PHILOX_INL_H_
#else
#define CASTOR_KERNELS_CPU_PHILOX_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/philox.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

inline constexpr int64_t kPhiloxBatch = 1;

HWY_INLINE void PhiloxBatch(RandomKey key, uint64_t counter, uint32_t* words) {
  const auto four = Philox4x32(key, counter);
  std::memcpy(words, four.data(), sizeof(four));
}

#else

// One counter per 64-bit lane: the multiplication reads the lower halves and
// gives whole products, so the upper halves may hold anything.
using PhiloxU64 = hn::ScalableTag<uint64_t>;
using PhiloxU32 = hn::Repartition<uint32_t, PhiloxU64>;
using VPhilox = hn::Vec<PhiloxU64>;
inline constexpr int64_t kPhiloxLanes =
    static_cast<int64_t>(hn::MaxLanes(PhiloxU64()));
// Several vectors at once hide the latency of a round's multiplication, as many
// as there are registers for.
inline constexpr int kPhiloxVectors = kPhiloxLanes == 8 ? 4 : 2;
inline constexpr int64_t kPhiloxBatch = kPhiloxVectors * kPhiloxLanes;

struct PhiloxState {
  VPhilox c0, c1, c2, c3;
};

HWY_INLINE void PhiloxRound(PhiloxState& s, VPhilox k0, VPhilox k1) {
  const PhiloxU64 d;
  const PhiloxU32 d32;
  const auto m0 = hn::BitCast(d32, hn::Set(d, uint64_t{0xD2511F53u}));
  const auto m1 = hn::BitCast(d32, hn::Set(d, uint64_t{0xCD9E8D57u}));
  const VPhilox p0 = hn::MulEven(hn::BitCast(d32, s.c0), m0);
  const VPhilox p1 = hn::MulEven(hn::BitCast(d32, s.c2), m1);
  s.c0 = hn::Xor3(hn::ShiftRight<32>(p1), s.c1, k0);
  s.c2 = hn::Xor3(hn::ShiftRight<32>(p0), s.c3, k1);
  s.c1 = p1;
  s.c3 = p0;
}

HWY_INLINE void StorePhilox(const PhiloxState& s, uint32_t* words) {
  const PhiloxU64 d;
  const VPhilox low = hn::Set(d, uint64_t{0xffffffffu});
  const VPhilox w01 = hn::Or(hn::And(s.c0, low), hn::ShiftLeft<32>(s.c1));
  const VPhilox w23 = hn::Or(hn::And(s.c2, low), hn::ShiftLeft<32>(s.c3));
  hn::StoreInterleaved2(w01, w23, d, reinterpret_cast<uint64_t*>(words));
}

// The 4 * kPhiloxBatch words of counters [counter, counter + kPhiloxBatch).
HWY_INLINE void PhiloxBatch(RandomKey key, uint64_t counter, uint32_t* words) {
  const PhiloxU64 d;
  const VPhilox stream = hn::Set(d, key.stream);
  const VPhilox stream_high = hn::ShiftRight<32>(stream);
  PhiloxState states[kPhiloxVectors];
  HWY_UNROLL(kPhiloxVectors)
  for (int i = 0; i < kPhiloxVectors; ++i) {
    const VPhilox index =
        hn::Iota(d, counter + static_cast<uint64_t>(i * kPhiloxLanes));
    states[i] = {index, hn::ShiftRight<32>(index), stream, stream_high};
  }
  VPhilox k0 = hn::Set(d, key.seed);
  VPhilox k1 = hn::Set(d, key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    HWY_UNROLL(kPhiloxVectors)
    for (int i = 0; i < kPhiloxVectors; ++i) PhiloxRound(states[i], k0, k1);
    k0 = hn::Add(k0, hn::Set(d, uint64_t{0x9E3779B9u}));
    k1 = hn::Add(k1, hn::Set(d, uint64_t{0xBB67AE85u}));
  }
  HWY_UNROLL(kPhiloxVectors)
  for (int i = 0; i < kPhiloxVectors; ++i) {
    StorePhilox(states[i], words + 4 * i * kPhiloxLanes);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

// words[i] = RandomWord(key, begin + i) for i in [0, size). `begin` need not be
// a multiple of anything.
HWY_INLINE void FillRandomWords(RandomKey key, uint64_t begin, int64_t size,
                                uint32_t* words) {
  constexpr int64_t kWords = 4 * kPhiloxBatch;
  uint64_t counter = begin / 4;
  const int64_t skip = static_cast<int64_t>(begin % 4);
  int64_t i = 0;
  if (skip != 0) {
    const auto four = Philox4x32(key, counter++);
    i = std::min<int64_t>(4 - skip, size);
    std::memcpy(words, four.data() + skip, i * sizeof(uint32_t));
  }
  for (; i + kWords <= size; i += kWords, counter += kPhiloxBatch) {
    PhiloxBatch(key, counter, words + i);
  }
  if (i < size) {
    uint32_t rest[kWords];
    PhiloxBatch(key, counter, rest);
    std::memcpy(words + i, rest, (size - i) * sizeof(uint32_t));
  }
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // CASTOR_KERNELS_CPU_PHILOX_INL_H_
