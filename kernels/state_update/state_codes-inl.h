// Reads and writes a tile of states in each format (base/state_format.h), a
// vector at a time. Included once for each target of the processor, behind
// kernels/cpu/simd-inl.h.
#if defined(CASTOR_KERNELS_STATE_UPDATE_STATE_CODES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_KERNELS_STATE_UPDATE_STATE_CODES_INL_H_
#undef CASTOR_KERNELS_STATE_UPDATE_STATE_CODES_INL_H_
#else
#define CASTOR_KERNELS_STATE_UPDATE_STATE_CODES_INL_H_
#endif

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/state_format.h"
#include "kernels/cpu/finite_watch-inl.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/state_update/formats.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

using U32 = hn::RebindToUnsigned<F32>;
using VU32 = hn::Vec<U32>;
using U16 = hn::Rebind<uint16_t, F32>;
using U8 = hn::Rebind<uint8_t, F32>;
static_assert(kStateTile % kLanes == 0);

// Stores the lowest bits of each lane, in which its value fits.
HWY_INLINE void StoreLow(VU32 lanes, uint8_t* to) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  // Highway takes four operations.
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm512_cvtepi32_epi8(lanes.raw));
#else
  const hn::RebindToSigned<F32> di32;
  hn::StoreU(hn::DemoteTo(U8(), hn::BitCast(di32, lanes)), U8(), to);
#endif
}
HWY_INLINE void StoreLow(VU32 lanes, uint16_t* to) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi32_epi16(lanes.raw));
#else
  const hn::RebindToSigned<F32> di32;
  hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(di32, lanes)), U16(), to);
#endif
}

// Stores the upper halves of the lanes of two vectors, one behind the other.
HWY_INLINE void StoreUpperHalves(VU32 a, VU32 b, uint16_t* to) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const hn::Repartition<uint16_t, U32> d16;
  hn::StoreU(hn::ConcatOdd(d16, hn::BitCast(d16, b), hn::BitCast(d16, a)), d16,
             to);
#else
  StoreLow(hn::ShiftRight<16>(a), to);
  StoreLow(hn::ShiftRight<16>(b), to + kLanes);
#endif
}

// The number of vectors that StoreBytes stores at once.
inline constexpr int64_t kFour = 4;
static_assert(kStateTile % (kFour * kLanes) == 0);

// Stores the lanes of four vectors, which are below 256, as bytes, one vector
// behind the other.
HWY_INLINE void StoreBytes(const VU32 (&v)[kFour], uint8_t* to) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  // Packing goes by blocks of 16 bytes, of which the result has four bytes of
  // each vector.
  const __m512i bytes =
      _mm512_packus_epi16(_mm512_packus_epi32(v[0].raw, v[1].raw),
                          _mm512_packus_epi32(v[2].raw, v[3].raw));
  const __m512i order =
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, bytes));
#else
  for (int64_t k = 0; k < kFour; ++k) StoreLow(v[k], to + k * kLanes);
#endif
}

// Returns the bits of BFloat16(float) in the upper halves of lanes of finite
// values.
HWY_INLINE VU32 RoundToUpperHalves(VF32 value) {
  const U32 d32;
  const VU32 bits = hn::BitCast(d32, value);
  const VU32 odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  return hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffu)));
}

// Returns the largest lane, in all lanes.
HWY_INLINE VU32 LargestLane(VU32 v) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  // Highway goes through a general register.
  v = hn::Max(v, hn::Shuffle2301(v));
  v = hn::Max(v, hn::Shuffle1032(v));
  v = hn::Max(v, hn::SwapAdjacentBlocks(v));
  return hn::Max(v, hn::ReverseBlocks(U32(), v));
#else
  return hn::MaxOfLanes(U32(), v);
#endif
}

// Returns RoundingBits of a vector of words.
template <StateFormat kFormat, int kState>
HWY_INLINE VU32 BitsToRound(const uint32_t* words) {
  const U32 d32;
  const VU32 w = hn::Load(d32, words);
  constexpr int kBits = kFormat == StateFormat::kSplit      ? 8
                        : kFormat == StateFormat::kBFloat16 ? 16
                                                            : 20;
  if constexpr (kState == 0) {
    return hn::ShiftRight<32 - kBits>(w);
  } else {
    return hn::And(w, hn::Set(d32, (1u << kBits) - 1));
  }
}

// Returns a value's magnitude. In a format without signs that of a negative
// value counts as not finite.
template <StateFormat kFormat>
HWY_INLINE VU32 MagnitudeOf(VF32 value) {
  const VU32 bits = hn::BitCast(U32(), value);
  if constexpr (kFormat == StateFormat::kUnsigned8) return bits;
  return hn::And(bits, hn::Set(U32(), 0x7fffffffu));
}

// Returns twice the values that ValueOf of base/state_format.h gives codes.
// Their bits, moved up to a float's and with an exponent of 1, are u = 2 times
// the value from code 8 on; below, u is in [2, 4) and twice the value is 2 u -
// 4, which is greater than u above.
HWY_INLINE VF32 TwiceValuesOf(VU32 u_bits) {
  const F32 d;
  const VF32 u = hn::BitCast(d, u_bits);
  return hn::Min(u, Fma(u, hn::Set(d, 2.0f), hn::Set(d, -4.0f)));
}

// Reads the vectors of one tile, which begins at `element` of an array of
// `size` elements.
template <StateFormat kFormat>
struct StateReader;

template <>
struct StateReader<StateFormat::kFloat32> {
  const float* from;
  HWY_INLINE StateReader(const std::byte* states, int64_t /*size*/,
                         int64_t element)
      : from(reinterpret_cast<const float*>(states) + element) {}
  HWY_INLINE VF32 operator()(int64_t i) const { return Load(from + i); }
};

template <>
struct StateReader<StateFormat::kBFloat16> {
  const BFloat16* from;
  HWY_INLINE StateReader(const std::byte* states, int64_t /*size*/,
                         int64_t element)
      : from(reinterpret_cast<const BFloat16*>(states) + element) {}
  HWY_INLINE VF32 operator()(int64_t i) const { return Load(from + i); }
};

template <StateFormat kFormat>
requires(IsEightBits(kFormat)) struct StateReader<kFormat> {
  const uint8_t* from;
  VF32 half_of_code;
  HWY_INLINE StateReader(const std::byte* states, int64_t size, int64_t element)
      : from(reinterpret_cast<const uint8_t*>(states) + element) {
    float scale;
    std::memcpy(&scale, states + ScaleOffset(size, element), sizeof(scale));
    half_of_code = hn::Set(F32(), OfCode(kFormat, scale) * 0.5f);
  }
  HWY_INLINE VF32 operator()(int64_t i) const {
    const F32 d;
    const U32 d32;
    const VU32 exponent = hn::Set(d32, 0x40000000u);
    if constexpr (kFormat == StateFormat::kUnsigned8) {
      const VU32 byte = hn::PromoteTo(d32, hn::LoadU(U8(), from + i));
      return hn::Mul(TwiceValuesOf(hn::Or(hn::ShiftLeft<20>(byte), exponent)),
                     half_of_code);
    }
    // The sign goes to the upper bits, too.
    const hn::RebindToSigned<F32> di32;
    const hn::Rebind<int8_t, F32> di8;
    const VU32 moved = hn::ShiftLeft<20>(hn::BitCast(
        d32, hn::PromoteTo(di32, hn::LoadU(di8, reinterpret_cast<const int8_t*>(
                                                    from + i)))));
    const VF32 magnitude = hn::Mul(
        TwiceValuesOf(hn::OrAnd(exponent, moved, hn::Set(d32, 127u << 20))),
        half_of_code);
    return hn::BitCast(d, hn::OrAnd(hn::BitCast(d32, magnitude), moved,
                                    hn::Set(d32, 1u << 31)));
  }
};

// The new values of a tile's state, in registers where these suffice.
inline constexpr int64_t kTileVectors = kStateTile / kLanes;
using TileValues = VF32[kTileVectors];

// Sees the new values of a tile of state kState, all of them before Settle, and
// Settle before they are written.
template <StateFormat kFormat, int kState>
struct StateSeen {
  FiniteWatch watch;
  HWY_INLINE StateSeen() : watch() {}
  HWY_INLINE void See(VF32 value) { watch.See(value); }
  HWY_INLINE void Settle(const TileValues&, const uint32_t*) {}
  HWY_INLINE bool finite() const { return watch.all_finite(); }
};
// Finds the largest magnitude, rounded up by its RoundingBits, which may make
// it infinite.
template <StateFormat kFormat, int kState>
requires(IsEightBits(kFormat)) struct StateSeen<kFormat, kState> {
  VU32 most;
  HWY_INLINE StateSeen() { most = hn::Zero(U32()); }
  HWY_INLINE void See(VF32 value) {
    most = hn::Max(most, MagnitudeOf<kFormat>(value));
  }
  // Only the exponent of `most` counts, to which random bits carry only from a
  // mantissa whose upper bits are set.
  HWY_INLINE void Settle(const TileValues& values, const uint32_t* words) {
    constexpr uint32_t kMayCarry = 0x700000u;
    most = LargestLane(most);
    if (HWY_LIKELY((hn::GetLane(most) & kMayCarry) != kMayCarry)) return;
    HWY_UNROLL(4)
    for (int64_t k = 0; k < kTileVectors; ++k) {
      most = hn::Max(most,
                     hn::Add(MagnitudeOf<kFormat>(values[k]),
                             BitsToRound<kFormat, kState>(words + k * kLanes)));
    }
    most = LargestLane(most);
  }
  HWY_INLINE bool finite() const {
    const U32 d32;
    return hn::AllTrue(d32, hn::Lt(most, hn::Set(d32, 0x7f800000u)));
  }
};

// Writes a tile of state kState, which begins at `element` of an array of
// `size` elements, of finite values. `words`: each element's (StateWord).
template <StateFormat kFormat, int kState>
struct StateWriter;

// The values are there already.
template <int kState>
struct StateWriter<StateFormat::kFloat32, kState> {
  static HWY_INLINE void Write(const StateSeen<StateFormat::kFloat32, kState>&,
                               const TileValues&, const uint32_t*, std::byte*,
                               int64_t, int64_t) {}
};

// RoundStochastically of base/state_format.h.
template <int kState>
struct StateWriter<StateFormat::kBFloat16, kState> {
  static HWY_INLINE void Write(const StateSeen<StateFormat::kBFloat16, kState>&,
                               const TileValues& values, const uint32_t* words,
                               std::byte* states, int64_t /*size*/,
                               int64_t element) {
    auto* const to = reinterpret_cast<uint16_t*>(states) + element;
    const auto rounded = [&](int64_t k) HWY_ATTR {
      return hn::Add(
          hn::BitCast(U32(), values[k]),
          BitsToRound<StateFormat::kBFloat16, kState>(words + k * kLanes));
    };
    HWY_UNROLL(4)
    for (int64_t k = 0; k < kTileVectors; k += 2) {
      StoreUpperHalves(rounded(k), rounded(k + 1), to + k * kLanes);
    }
  }
};

// EncodeByte of base/state_format.h.
template <StateFormat kFormat, int kState>
requires(IsEightBits(kFormat)) struct StateWriter<kFormat, kState> {
  static HWY_INLINE void Write(const StateSeen<kFormat, kState>& seen,
                               const TileValues& values, const uint32_t* words,
                               std::byte* states, int64_t size,
                               int64_t element) {
    const U32 d32;
    // ScaleOfTile and MakeTileScale.
    const VU32 scale =
        hn::Max(hn::And(seen.most, hn::Set(d32, 0x7f800000u)),
                hn::Set(d32, std::bit_cast<uint32_t>(ScaleOfTile(0))));
    constexpr uint32_t kRange = std::bit_cast<uint32_t>(CodeRange(kFormat));
    constexpr uint32_t kOne = std::bit_cast<uint32_t>(1.0f);
    const VF32 to_code =
        hn::BitCast(F32(), hn::Sub(hn::Set(d32, kRange + kOne), scale));
    const uint32_t bits = hn::GetLane(scale);
    std::memcpy(states + ScaleOffset(size, element), &bits, sizeof(bits));
    auto* const to = reinterpret_cast<uint8_t*>(states) + element;
    HWY_UNROLL(4)
    for (int64_t k = 0; k < kTileVectors; k += kFour) {
      VU32 codes[kFour];
      HWY_UNROLL(4)
      for (int64_t j = 0; j < kFour; ++j) {
        codes[j] = Encode(values[k + j], to_code, words + (k + j) * kLanes);
      }
      StoreBytes(codes, to + k * kLanes);
    }
  }

  static HWY_INLINE VU32 Encode(VF32 value, VF32 to_code,
                                const uint32_t* words) {
    const F32 d;
    const U32 d32;
    const VU32 magnitude = MagnitudeOf<kFormat>(value);
    const VF32 y = hn::Mul(hn::BitCast(d, magnitude), to_code);
    // CodeOf: with u = 1 + y / 2, whose bits below 2 are those of y + 2 with an
    // exponent less, the greater of y and u is y from 2 on and u below.
    const VF32 u = hn::Max(y, Fma(y, hn::Set(d, 0.5f), hn::Set(d, 1.0f)));
    VU32 code =
        hn::Sub(hn::ShiftRight<20>(hn::Add(
                    hn::BitCast(d32, u), BitsToRound<kFormat, kState>(words))),
                hn::Set(d32, 1016u));
    if constexpr (kFormat == StateFormat::kSigned8) {
      const VU32 with_sign =
          hn::OrAnd(code, hn::ShiftRight<24>(hn::BitCast(d32, value)),
                    hn::Set(d32, 128u));
      return hn::IfThenElse(hn::Eq(code, hn::Zero(d32)), code, with_sign);
    }
    return hn::Max(code, hn::Min(magnitude, hn::Set(d32, 1u)));
  }
};

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // CASTOR_KERNELS_STATE_UPDATE_STATE_CODES_INL_H_
