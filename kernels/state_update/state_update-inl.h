// A pass over a chunk's elements, tile by tile, through buffers of a tile's
// floats in the first-level cache: what moves in memory is what the states'
// formats take (kernels/state_update/state_update.h). Included once for each
// target of the processor, behind kernels/cpu/simd-inl.h.
#if defined(CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_INL_H_
#undef CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_INL_H_
#else
#define CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/state_format.h"
#include "base/with_type.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/finite_watch-inl.h"
#include "kernels/cpu/range_pieces.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/state_update/state_update.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

using U32 = hn::RebindToUnsigned<F32>;
using VU32 = hn::Vec<U32>;
using U8 = hn::Rebind<uint8_t, F32>;
static_assert(kStateTile % kLanes == 0);

// A tile's values. Those behind a range's end are 0.
template <int kStates>
struct Tile {
  HWY_ALIGN float g[kStateTile];
  HWY_ALIGN float p[kStateTile];
  HWY_ALIGN float states[kStates][kStateTile];
};

template <class T>
HWY_INLINE void LoadTile(const T* from, int64_t count, float* to) {
  for (int64_t i = 0; i < kStateTile; i += kLanes) {
    hn::Store(LoadPart(from + i, count - i), F32(), to + i);
  }
}
template <class T>
HWY_INLINE void StoreTile(const float* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; i += kLanes) {
    StorePart(hn::Load(F32(), from + i), to + i, count - i);
  }
}

// CodeOf and ValueOf of base/state_format.h.
HWY_INLINE VU32 CodesOf(VF32 y, VU32 add, uint32_t most) {
  const F32 d;
  const U32 d32;
  const auto small = hn::Lt(y, hn::Set(d, 2.0f));
  const VF32 shifted = hn::IfThenElse(small, hn::Add(y, hn::Set(d, 2.0f)), y);
  const VU32 bits =
      hn::And(hn::BitCast(d32, shifted), hn::Set(d32, 0x7fffffffu));
  const VU32 codes =
      hn::Sub(hn::ShiftRight<20>(hn::Add(bits, add)),
              hn::IfThenElse(hn::RebindMask(d32, small), hn::Set(d32, 1024u),
                             hn::Set(d32, 1016u)));
  return hn::Min(codes, hn::Set(d32, most));
}
HWY_INLINE VF32 ValuesOf(VU32 codes) {
  const F32 d;
  const U32 d32;
  const auto small = hn::Lt(codes, hn::Set(d32, 8u));
  const VU32 bits = hn::ShiftLeft<20>(hn::Add(
      codes, hn::IfThenElse(small, hn::Set(d32, 1024u), hn::Set(d32, 1016u))));
  const VF32 values = hn::BitCast(d, bits);
  return hn::IfThenElse(hn::RebindMask(d, small),
                        hn::Sub(values, hn::Set(d, 2.0f)), values);
}

// The first lanes, which may be all or none; the others, which may have held
// anything, become 0.
HWY_INLINE VF32 FirstLanes(VF32 value, int64_t lanes) {
  if (lanes >= kLanes) return value;
  const F32 d;
  return hn::IfThenElseZero(
      hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(0, lanes))), value);
}

// The tile that begins at `element` of an array of codes.
template <StateFormat kFormat>
HWY_INLINE void DecodeTile(const std::byte* states, int64_t size,
                           int64_t element, int64_t count, float* to) {
  const F32 d;
  const U32 d32;
  const U8 d8;
  float scale;
  std::memcpy(&scale, states + ScaleOffset(size, element), sizeof(scale));
  const VF32 of_code = hn::Set(d, MakeTileScale(kFormat, scale).of_code);
  const auto* const codes = reinterpret_cast<const uint8_t*>(states) + element;
  for (int64_t i = 0; i < kStateTile; i += kLanes) {
    const VU32 byte = hn::PromoteTo(d32, hn::LoadU(d8, codes + i));
    VF32 value;
    if constexpr (kFormat == StateFormat::kSigned8) {
      value = hn::Mul(ValuesOf(hn::And(byte, hn::Set(d32, 127u))), of_code);
      const VU32 sign = hn::ShiftLeft<24>(hn::And(byte, hn::Set(d32, 128u)));
      value = hn::BitCast(d, hn::Xor(hn::BitCast(d32, value), sign));
    } else {
      value = hn::Mul(ValuesOf(byte), of_code);
    }
    hn::Store(FirstLanes(value, count - i), d, to + i);
  }
}

// kShift: where the 16 random bits stand in a word.
template <StateFormat kFormat, int kShift>
HWY_INLINE void EncodeTile(const float* from, const uint32_t* words,
                           std::byte* states, int64_t size, int64_t element) {
  const F32 d;
  const U32 d32;
  const U8 d8;
  const hn::RebindToSigned<F32> di32;
  const VU32 magnitude_bits = hn::Set(d32, 0x7fffffffu);
  VU32 most = hn::Zero(d32);
  HWY_ALIGN uint32_t add[kStateTile];
  for (int64_t i = 0; i < kStateTile; i += kLanes) {
    const VU32 bits = hn::BitCast(d32, hn::Load(d, from + i));
    const VU32 random = hn::ShiftLeft<4>(
        hn::And(hn::ShiftRight<kShift>(hn::Load(d32, words + i)),
                hn::Set(d32, 0xffffu)));
    hn::Store(random, d32, add + i);
    most = hn::Max(most, hn::Add(hn::And(bits, magnitude_bits), random));
  }
  const TileScale scale = MakeTileScale(
      kFormat, ScaleOfTile(hn::GetLane(hn::MaxOfLanes(d32, most))));
  std::memcpy(states + ScaleOffset(size, element), &scale.scale,
              sizeof(scale.scale));
  const VF32 to_code = hn::Set(d, scale.to_code);
  auto* const codes = reinterpret_cast<uint8_t*>(states) + element;
  for (int64_t i = 0; i < kStateTile; i += kLanes) {
    const VU32 bits = hn::BitCast(d32, hn::Load(d, from + i));
    const VF32 y =
        hn::Mul(hn::BitCast(d, hn::And(bits, magnitude_bits)), to_code);
    VU32 code = CodesOf(y, hn::Load(d32, add + i), MostCode(kFormat));
    const auto zero = hn::Eq(code, hn::Zero(d32));
    if constexpr (kFormat == StateFormat::kSigned8) {
      const VU32 sign = hn::ShiftLeft<7>(hn::ShiftRight<31>(bits));
      code = hn::Or(code, hn::IfThenZeroElse(zero, sign));
    } else {
      const auto nothing = hn::Eq(hn::And(bits, magnitude_bits), hn::Zero(d32));
      code = hn::IfThenElse(hn::AndNot(nothing, zero), hn::Set(d32, 1u), code);
    }
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di32, code)), d8, codes + i);
  }
}

// RoundStochastically of base/state_format.h.
template <int kShift>
HWY_INLINE void RoundTile(const float* from, const uint32_t* words,
                          int64_t count, BFloat16* to) {
  const F32 d;
  const U32 d32;
  const hn::Rebind<uint16_t, F32> d16;
  const hn::RebindToSigned<F32> di32;
  for (int64_t i = 0; i < count; i += kLanes) {
    const VF32 value = hn::Load(d, from + i);
    const VU32 bits = hn::BitCast(d32, value);
    const VU32 random =
        hn::And(hn::ShiftRight<kShift>(hn::Load(d32, words + i)),
                hn::Set(d32, 0xffffu));
    const VU32 rounded = hn::ShiftRight<16>(hn::Add(bits, random));
    const VU32 nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x0040u));
    const VU32 upper =
        hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(value)), nan, rounded);
    HWY_ALIGN uint16_t lanes[kLanes];
    hn::Store(hn::DemoteTo(d16, hn::BitCast(di32, upper)), d16, lanes);
    std::memcpy(to + i, lanes,
                static_cast<size_t>(std::min(kLanes, count - i)) * sizeof(*to));
  }
}

// The tile of masters that begins at `element`, with its first `count`
// elements.
HWY_INLINE void LoadMaster(const StateArrays& arrays, const void* from,
                           int64_t element, int64_t count, float* to) {
  const auto* const nearest = static_cast<const BFloat16*>(from);
  if (arrays.master_format == StateFormat::kFloat32) {
    LoadTile(static_cast<const float*>(from) + element, count, to);
    return;
  }
  LoadTile(nearest + element, count, to);
  if (arrays.master_format == StateFormat::kBFloat16) return;
  const F32 d;
  const U32 d32;
  const hn::Rebind<int8_t, F32> d8;
  const hn::RebindToSigned<F32> di32;
  const auto* const rests =
      reinterpret_cast<const int8_t*>(nearest + arrays.elements) + element;
  for (int64_t i = 0; i < count; i += kLanes) {
    const VU32 rest = hn::BitCast(
        d32, hn::ShiftLeft<8>(hn::PromoteTo(di32, hn::LoadU(d8, rests + i))));
    const VU32 bits = hn::Add(hn::BitCast(d32, hn::Load(d, to + i)), rest);
    hn::Store(FirstLanes(hn::BitCast(d, bits), count - i), d, to + i);
  }
}

// Split of base/state_format.h, with the upper 8 bits of each random word.
HWY_INLINE void SplitTile(const float* from, const uint32_t* words,
                          int64_t count, BFloat16* nearest, int8_t* rests) {
  const F32 d;
  const U32 d32;
  const hn::Rebind<uint16_t, F32> d16;
  const hn::Rebind<int8_t, F32> d8;
  const hn::RebindToSigned<F32> di32;
  for (int64_t i = 0; i < count; i += kLanes) {
    const VF32 value = hn::Load(d, from + i);
    const VU32 bits = hn::BitCast(d32, value);
    const VU32 random = hn::ShiftRight<24>(hn::Load(d32, words + i));
    const VU32 rounded = hn::ShiftRight<8>(hn::Add(bits, random));
    const VU32 upper = hn::ShiftRight<8>(hn::Add(rounded, hn::Set(d32, 128u)));
    const auto is_nan = hn::RebindMask(d32, hn::IsNaN(value));
    const VU32 nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x0040u));
    const VU32 rest =
        hn::IfThenZeroElse(is_nan, hn::Sub(rounded, hn::ShiftLeft<8>(upper)));
    HWY_ALIGN uint16_t upper_lanes[kLanes];
    HWY_ALIGN int8_t rest_lanes[kLanes];
    hn::Store(hn::DemoteTo(
                  d16, hn::BitCast(di32, hn::IfThenElse(is_nan, nan, upper))),
              d16, upper_lanes);
    hn::Store(hn::DemoteTo(d8, hn::BitCast(di32, rest)), d8, rest_lanes);
    const auto some = static_cast<size_t>(std::min(kLanes, count - i));
    std::memcpy(nearest + i, upper_lanes, some * sizeof(*nearest));
    std::memcpy(rests + i, rest_lanes, some);
  }
}

// Stores the tile of masters, rounded, and the payload.
HWY_INLINE void StoreMaster(const StateArrays& arrays, const float* from,
                            RandomKey key, uint64_t of_parameter,
                            int64_t element, int64_t count) {
  if (arrays.master_format == StateFormat::kFloat32) {
    StoreTile(from, count, static_cast<float*>(arrays.master) + element);
    WithType(arrays.dtype, [&]<class T>(T) HWY_ATTR {
      StoreTile(from, count, static_cast<T*>(arrays.payload) + element);
    });
    return;
  }
  HWY_ALIGN uint32_t words[kStateTile];
  RandomWords(MasterKey(key), of_parameter, kStateTile, words);
  auto* const nearest = static_cast<BFloat16*>(arrays.master) + element;
  if (arrays.master_format == StateFormat::kBFloat16) {
    RoundTile</*kShift=*/16>(from, words, count, nearest);
  } else {
    SplitTile(from, words, count, nearest,
              reinterpret_cast<int8_t*>(static_cast<BFloat16*>(arrays.master) +
                                        arrays.elements) +
                  element);
  }
  std::memcpy(static_cast<BFloat16*>(arrays.payload) + element, nearest,
              static_cast<size_t>(count) * sizeof(*nearest));
}

// The tile of state kState that begins at `element`, with its first `count`
// elements. Where there are no states, it is 0.
template <int kState>
HWY_INLINE void LoadState(const StateArrays& arrays, const std::byte* from,
                          int64_t element, int64_t count, float* to) {
  if (arrays.bits == 8) {
    DecodeTile<FormatOfState(8, kState)>(from, arrays.elements, element, count,
                                         to);
  } else if (arrays.bits == 16) {
    LoadTile(reinterpret_cast<const BFloat16*>(from) + element, count, to);
  } else if (arrays.bits == 32) {
    LoadTile(reinterpret_cast<const float*>(from) + element, count, to);
  } else {
    std::fill(to, to + kStateTile, 0.0f);
  }
}

// `words` are the elements' random words, if the format rounds.
template <int kState>
HWY_INLINE void StoreState(const StateArrays& arrays, float* from,
                           const uint32_t* words, int64_t element,
                           int64_t count) {
  constexpr int kShift = kState == 0 ? 16 : 0;
  std::byte* const to = arrays.states[kState];
  if (arrays.bits == 8) {
    std::fill(from + count, from + kStateTile, 0.0f);
    EncodeTile<FormatOfState(8, kState), kShift>(from, words, to,
                                                 arrays.elements, element);
  } else if (arrays.bits == 16) {
    RoundTile<kShift>(from, words, count,
                      reinterpret_cast<BFloat16*>(to) + element);
  } else if (arrays.bits == 32) {
    StoreTile(from, count, reinterpret_cast<float*>(to) + element);
  }
}

// One step of a tile's elements: step(g, p, state 0, ...) makes new values of
// p and of the states. Returns whether those of p and of the last state are
// finite: where another state is not, that one is not either.
template <class Step, int kStates>
HWY_INLINE bool StepTile(const Step& step, Tile<kStates>& x) {
  const F32 d;
  FiniteWatch watch;
  for (int64_t i = 0; i < kStateTile; i += kLanes) {
    const VF32 g = hn::Load(d, x.g + i);
    VF32 p = hn::Load(d, x.p + i);
    VF32 first = hn::Load(d, x.states[0] + i);
    if constexpr (kStates == 1) {
      step(g, p, first);
      watch.See(first);
    } else {
      VF32 second = hn::Load(d, x.states[1] + i);
      step(g, p, first, second);
      watch.See(second);
      hn::Store(second, d, x.states[1] + i);
    }
    watch.See(p);
    hn::Store(first, d, x.states[0] + i);
    hn::Store(p, d, x.p + i);
  }
  return watch.all_finite();
}

// The new values of the first `count` lanes alone are looked at: lanes without
// an element may hold 0 / 0.
template <int kStates>
HWY_INLINE bool FirstAreFinite(const Tile<kStates>& x, int64_t count) {
  FiniteWatch watch;
  for (int64_t i = 0; i < count; i += kLanes) {
    watch.SeePart(hn::Load(F32(), x.p + i), count - i);
    watch.SeePart(hn::Load(F32(), x.states[kStates - 1] + i), count - i);
  }
  return watch.all_finite();
}

// Updates elements [begin, begin + size) of the arrays, of the given range, by
// step_tile(tile), which returns what StepTile returns.
template <int kStates, class Hyper, class StepTileOf>
HWY_INLINE void UpdateTiles(const StateArrays& arrays,
                            const StateRange<Hyper>& range, int64_t begin,
                            int64_t size, const StepTileOf& step_tile) {
  const bool aside = arrays.from.master != nullptr;
  const void* const old_master = aside ? arrays.from.master : arrays.master;
  const std::byte* old[kStates];
  for (int i = 0; i < kStates; ++i) {
    old[i] = aside ? arrays.from.states[i] : arrays.states[i];
  }
  const bool rounds = arrays.bits == 8 || arrays.bits == 16;
  Tile<kStates> x;
  HWY_ALIGN uint32_t words[kStateTile] = {};
  bool finite = true;
  for (int64_t at = begin; at < begin + size; at += kStateTile) {
    const int64_t count = std::min(kStateTile, begin + size - at);
    WithType(arrays.dtype, [&]<class T>(T) HWY_ATTR {
      if (arrays.gradient_sum != nullptr) {
        LoadTile(arrays.gradient_sum + at, count, x.g);
      } else if (arrays.gradient != nullptr) {
        LoadTile(static_cast<const T*>(arrays.gradient) + at, count, x.g);
      } else {
        LoadTile(static_cast<const T*>(arrays.payload) + at, count, x.g);
      }
    });
    LoadMaster(arrays, old_master, at, count, x.p);
    LoadState<0>(arrays, old[0], at, count, x.states[0]);
    if constexpr (kStates == 2) {
      LoadState<1>(arrays, old[1], at, count, x.states[1]);
    }
    if (!step_tile(x)) finite &= FirstAreFinite(x, count);
    const auto of_parameter =
        static_cast<uint64_t>(range.first + at - range.begin);
    if (rounds) RandomWords(range.key, of_parameter, kStateTile, words);
    StoreState<0>(arrays, x.states[0], words, at, count);
    if constexpr (kStates == 2) {
      StoreState<1>(arrays, x.states[1], words, at, count);
    }
    StoreMaster(arrays, x.p, range.key, of_parameter, at, count);
  }
  if (!finite) Mark(arrays.not_finite);
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_INL_H_
