// A pass over a chunk's elements, tile by tile, that moves only as many bytes
// in memory as the states' formats take (kernels/state_update/state_update.h).
// Included once for each target of the processor, behind
// kernels/cpu/simd-inl.h.
#if defined(CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_INL_H_
#undef CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_INL_H_
#else
#define CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/state_format.h"
#include "base/with_type.h"
#include "kernels/cpu/finite_watch-inl.h"
#include "kernels/cpu/philox-inl.h"
#include "kernels/cpu/range_pieces.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/state_update/scalar_tile.h"
#include "kernels/state_update/state_codes-inl.h"
#include "kernels/state_update/state_update.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// Reads zeros, for an optimizer that keeps no states.
struct NoState {
  template <class... Ts>
  HWY_INLINE explicit NoState(const Ts&...) {}
  HWY_INLINE VF32 operator()(int64_t /*i*/) const { return hn::Zero(F32()); }
};

// The format of a state of kBits bits. If kBits is 0 there are no states, and a
// tile has fp32 values in their place, which nobody rounds.
template <int kBits, int kState>
inline constexpr StateFormat kFormatOf = kBits == 0
                                             ? StateFormat::kFloat32
                                             : FormatOfState(kBits, kState);

// Tiles whose random words are drawn together.
inline constexpr int64_t kGroup = 4;

// The random words (StateWord) of `tiles` tiles that begin at this element of
// the parameter.
inline HWY_NOINLINE void FillTileWords(RandomKey key, uint64_t element,
                                       int64_t tiles,
                                       uint32_t (*words)[kStateTile]) {
  constexpr int64_t kHalf = kStateTile / 2;
  static_assert(kHalf % kLanes == 0);
  const U32 d32;
  HWY_ALIGN uint32_t drawn[kGroup * kHalf];
  // A whole group's words are drawn at once, also where the range has fewer
  // tiles left: a shorter draw would take another path, for no gain.
  FillRandomWords(key, element / 2, kGroup * kHalf, drawn);
  for (int64_t t = 0; t < tiles; ++t) {
    for (int64_t i = 0; i < kHalf; i += kLanes) {
      const VU32 w = hn::Load(d32, drawn + t * kHalf + i);
      hn::Store(w, d32, words[t] + i);
      hn::Store(hn::RotateRight<16>(w), d32, words[t] + kHalf + i);
    }
  }
}

// Rounds masters of whole tiles, which are finite, to bf16, or splits them.
inline HWY_NOINLINE void RoundMasters(const StateArrays& arrays,
                                      const float* values,
                                      const uint32_t* words, int64_t element,
                                      int64_t count) {
  const U32 d32;
  auto* const nearest = static_cast<uint16_t*>(arrays.master) + element;
  auto* const rests =
      reinterpret_cast<uint8_t*>(static_cast<uint16_t*>(arrays.master) +
                                 arrays.elements) +
      element;
  const bool split = arrays.master_format == StateFormat::kSplit;
  for (int64_t i = 0; i < count; i += kLanes) {
    const VU32 bits = hn::BitCast(d32, Load(values + i));
    if (split) {
      const VU32 rounded = hn::ShiftRight<8>(
          hn::Add(bits, BitsToRound<StateFormat::kSplit, 0>(words + i)));
      StoreLow(hn::ShiftRight<8>(hn::Add(rounded, hn::Set(d32, 128u))),
               nearest + i);
      StoreLow(hn::And(rounded, hn::Set(d32, 0xffu)), rests + i);
    } else {
      StoreLow(hn::ShiftRight<16>(hn::Add(
                   bits, BitsToRound<StateFormat::kBFloat16, 0>(words + i))),
               nearest + i);
    }
  }
}

// Widens masters of whole tiles that are not fp32.
inline HWY_NOINLINE void WidenMasters(const StateArrays& arrays,
                                      const void* masters, int64_t element,
                                      int64_t count, float* values) {
  const U32 d32;
  const hn::RebindToSigned<F32> di32;
  const hn::Rebind<int8_t, F32> di8;
  const auto* const nearest = static_cast<const BFloat16*>(masters) + element;
  const auto* const rests =
      reinterpret_cast<const int8_t*>(static_cast<const BFloat16*>(masters) +
                                      arrays.elements) +
      element;
  const bool split = arrays.master_format == StateFormat::kSplit;
  for (int64_t i = 0; i < count; i += kLanes) {
    VF32 p = Load(nearest + i);
    if (split) {
      const auto rest =
          hn::ShiftLeft<8>(hn::PromoteTo(di32, hn::LoadU(di8, rests + i)));
      p = hn::BitCast(F32(),
                      hn::Add(hn::BitCast(d32, p), hn::BitCast(d32, rest)));
    }
    Store(p, values + i);
  }
}

// Convert whole tiles of values of a type to fp32, and back.
inline HWY_NOINLINE void Widen(DType dtype, const void* from, int64_t element,
                               int64_t count, float* to) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    const T* const values = static_cast<const T*>(from) + element;
    for (int64_t i = 0; i < count; i += kLanes) {
      Store(Load(values + i), to + i);
    }
  });
}
inline HWY_NOINLINE void Narrow(DType dtype, const float* from, void* to,
                                int64_t element, int64_t count) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    T* const values = static_cast<T*>(to) + element;
    for (int64_t i = 0; i < count; i += kLanes) {
      Store(Load(from + i), values + i);
    }
  });
}

// Updates a range of the arrays by a step, which makes new values of p and of
// the states: step(g, p, state), or, of two states, AdamStep's three parts.
template <int kStates, int kBits, class Hyper, class Step>
class TilesUpdate {
 public:
  HWY_INLINE TilesUpdate(const StateArrays& arrays,
                         const StateRange<Hyper>& range, const Step& step)
      : arrays_(arrays),
        range_(range),
        step_(step),
        rounds_master_(arrays.master_format != StateFormat::kFloat32),
        master_(static_cast<std::byte*>(arrays.master)) {
    const bool aside = arrays.from.master != nullptr;
    old_master_ =
        aside ? static_cast<const std::byte*>(arrays.from.master) : master_;
    for (int k = 0; k < kStates; ++k) {
      old_[k] = aside ? arrays.from.states[k] : arrays.states[k];
    }
  }

  // Updates elements [begin, begin + size), where `begin` is a multiple of
  // kStateTile. Returns true if all values that it writes are finite.
  HWY_INLINE bool Run(int64_t begin, int64_t size) {
    // The usual case is fast: gradients are read and parameters are written in
    // bf16 while the tile is stepped. Otherwise both go through buffers.
    const bool direct = arrays_.dtype == DType::kBFloat16 && !rounds_master_ &&
                        arrays_.gradient_sum == nullptr;
    const int64_t end = begin + size;
    bool finite = true;
    int64_t at = begin;
    while (at + kStateTile <= end) {
      const int64_t tiles = std::min(kGroup, (end - at) / kStateTile);
      finite &= direct ? UpdateGroup<BFloat16>(at, tiles)
                       : UpdateGroup<float>(at, tiles);
      at += tiles * kStateTile;
    }
    if (at < end) finite &= UpdatePart(at, end - at);
    return finite;
  }

 private:
  static constexpr int kLast = kStates - 1;
  static constexpr bool kRounds = kBits == 8 || kBits == 16;
  template <int kState>
  using Reader = std::conditional_t<kBits == 0, NoState,
                                    StateReader<kFormatOf<kBits, kState>>>;
  template <int kState>
  using Seen = StateSeen<kFormatOf<kBits, kState>, kState>;
  template <int kState>
  using Writer = StateWriter<kFormatOf<kBits, kState>, kState>;

  HWY_INLINE float* Floats(int state, int64_t at) {
    return reinterpret_cast<float*>(arrays_.states[state]) + at;
  }

  // Returns the address of the gradients of a group's tiles, in type G.
  template <class G>
  HWY_INLINE const G* Gradients(int64_t begin, int64_t count) {
    const void* const from =
        arrays_.gradient != nullptr ? arrays_.gradient : arrays_.payload;
    if constexpr (std::is_same_v<G, BFloat16>) {
      return static_cast<const BFloat16*>(from) + begin;
    } else {
      if (arrays_.gradient_sum != nullptr) return arrays_.gradient_sum + begin;
      Widen(arrays_.dtype, from, begin, count, g_);
      return g_;
    }
  }
  // Returns the address of the group's masters, in fp32.
  HWY_INLINE const float* OldMasters(int64_t begin, int64_t count) {
    if (!rounds_master_) {
      return reinterpret_cast<const float*>(old_master_) + begin;
    }
    WidenMasters(arrays_, old_master_, begin, count, p_[0]);
    return p_[0];
  }
  // Rounds the group's masters, unless they are fp32, and stores the payload.
  HWY_INLINE void StoreMasters(int64_t begin, int64_t tiles,
                               bool finite) const {
    const int64_t count = tiles * kStateTile;
    if (!rounds_master_) {
      Narrow(arrays_.dtype, reinterpret_cast<const float*>(master_) + begin,
             arrays_.payload, begin, count);
      return;
    }
    if (HWY_LIKELY(finite)) {
      RoundMasters(arrays_, p_[0], master_words_[0], begin, count);
    } else {
      for (int64_t t = 0; t < tiles; ++t) {
        RoundTile(arrays_.master_format, 0, p_[t], master_words_[t], master_,
                  arrays_.elements, begin + t * kStateTile, kStateTile);
      }
    }
    std::memcpy(static_cast<BFloat16*>(arrays_.payload) + begin,
                reinterpret_cast<const BFloat16*>(master_) + begin,
                static_cast<size_t>(count) * sizeof(BFloat16));
  }

  HWY_INLINE uint64_t OfParameter(int64_t at) const {
    return static_cast<uint64_t>(range_.first + at - range_.begin);
  }
  HWY_INLINE void DrawWords(int64_t at, int64_t tiles) {
    if constexpr (kRounds) {
      FillTileWords(range_.key, OfParameter(at), tiles, words_);
    }
    if (rounds_master_) {
      FillTileWords(MasterKey(range_.key), OfParameter(at), tiles,
                    master_words_);
    }
  }

  // Updates a tile. If G is bf16 it stores the payload, too, whose bits are
  // right if the result is true: all new values are finite.
  template <class G>
  HWY_INLINE bool UpdateTile(int64_t at, int64_t tile, const G* g,
                             const float* old_p) {
    const Step step = step_;
    const uint32_t* const words = words_[tile];
    float* const p =
        rounds_master_ ? p_[tile] : reinterpret_cast<float*>(master_) + at;
    auto* const payload = static_cast<uint16_t*>(arrays_.payload) + at;
    const Reader<0> read_first(old_[0], arrays_.elements, at);
    const Reader<kLast> read_last(old_[kLast], arrays_.elements, at);
    FiniteWatch watch;
    Seen<0> first_seen;
    Seen<kLast> last_seen;
    // A processor looks only so far ahead while it waits for a result: a tile's
    // codes are made between its divisions, which take long.
    TileValues first, last, new_p, waited;
    HWY_UNROLL(4)
    for (int64_t k = 0; k < kTileVectors; ++k) {
      const int64_t i = k * kLanes;
      new_p[k] = Load(old_p + i);
      first[k] = read_first(i);
      if constexpr (kStates == 1) {
        step(Load(g + i), new_p[k], first[k]);
      } else {
        last[k] = read_last(i);
        waited[k] = step.Start(Load(g + i), new_p[k], first[k], last[k]);
        last_seen.See(last[k]);
        if (kBits == 32) Store(last[k], Floats(kLast, at) + i);
      }
      first_seen.See(first[k]);
      if (kBits == 32) Store(first[k], Floats(0, at) + i);
    }
    if constexpr (kStates == 2) {
      HWY_UNROLL(4)
      for (int64_t k = 0; k < kTileVectors; ++k) {
        waited[k] = step.Denominator(waited[k]);
      }
      last_seen.Settle(last, words);
    }
    first_seen.Settle(first, words);
    // Where values are not finite, what is written here is written again below.
    const int64_t size = arrays_.elements;
    if constexpr (kRounds) {
      Writer<0>::Write(first_seen, first, words, arrays_.states[0], size, at);
    }
    if constexpr (kStates == 2) {
      HWY_UNROLL(4)
      for (int64_t k = 0; k < kTileVectors; ++k) {
        waited[k] = step.Change(first[k], waited[k]);
      }
      if constexpr (kRounds) {
        Writer<1>::Write(last_seen, last, words, arrays_.states[1], size, at);
      }
    }
    HWY_UNROLL(4)
    for (int64_t k = 0; k < kTileVectors; ++k) {
      const int64_t i = k * kLanes;
      if constexpr (kStates == 2) new_p[k] = hn::Add(new_p[k], waited[k]);
      watch.See(new_p[k]);
      Store(new_p[k], p + i);
      if (std::is_same_v<G, BFloat16> && k % 2 != 0) {
        StoreUpperHalves(RoundToUpperHalves(new_p[k - 1]),
                         RoundToUpperHalves(new_p[k]), payload + i - kLanes);
      }
    }
    const bool finite = watch.all_finite() && first_seen.finite() &&
                        (kStates == 1 || last_seen.finite());
    if (!kRounds || finite) return finite;
    HWY_ALIGN float values[kStateTile];
    for (int state = 0; state < kStates; ++state) {
      HWY_UNROLL(4)
      for (int64_t k = 0; k < kTileVectors; ++k) {
        Store(state == 0 ? first[k] : last[k], values + k * kLanes);
      }
      RoundTile(FormatOfState(kBits, state), state, values, words,
                arrays_.states[state], size, at, kStateTile);
    }
    return false;
  }

  // Updates whole tiles, at most kGroup of them.
  template <class G>
  HWY_INLINE bool UpdateGroup(int64_t begin, int64_t tiles) {
    DrawWords(begin, tiles);
    const G* const g = Gradients<G>(begin, tiles * kStateTile);
    const float* const old_p = OldMasters(begin, tiles * kStateTile);
    bool finite = true;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t offset = t * kStateTile;
      finite &= UpdateTile<G>(begin + offset, t, g + offset, old_p + offset);
    }
    if (std::is_same_v<G, float> || !finite) {
      StoreMasters(begin, tiles, finite);
    }
    return finite;
  }

  // Updates the first `count` elements of a tile; the others have no effect.
  HWY_INLINE bool UpdatePart(int64_t at, int64_t count) {
    const Step step = step_;
    PartOfTile part;
    LoadPartOfTile(arrays_, kStates, at, count, part);
    for (int64_t i = 0; i < kStateTile; i += kLanes) {
      VF32 vp = Load(part.p + i);
      VF32 first = Load(part.states[0] + i);
      if constexpr (kStates == 1) {
        step(Load(part.g + i), vp, first);
      } else {
        VF32 last = Load(part.states[1] + i);
        step(Load(part.g + i), vp, first, last);
        Store(last, part.states[1] + i);
      }
      Store(first, part.states[0] + i);
      Store(vp, part.p + i);
    }
    return StorePartOfTile(arrays_, kStates, at, count, range_.key,
                           OfParameter(at), part);
  }

  const StateArrays& arrays_;
  const StateRange<Hyper>& range_;
  const Step& step_;
  const bool rounds_master_;
  std::byte* const master_;
  const std::byte* old_master_;
  const std::byte* old_[kStates];
  // These hold the values of a group's tiles.
  HWY_ALIGN float g_[kGroup * kStateTile];
  HWY_ALIGN float p_[kGroup][kStateTile];
  HWY_ALIGN uint32_t words_[kGroup][kStateTile];
  HWY_ALIGN uint32_t master_words_[kGroup][kStateTile];
};

// Updates elements [begin, begin + size) of the arrays, of the given range.
template <int kStates, class Hyper, class Step>
HWY_INLINE void UpdateTiles(const StateArrays& arrays,
                            const StateRange<Hyper>& range, int64_t begin,
                            int64_t size, const Step& step) {
  const auto update = [&]<int kBits>() HWY_ATTR {
    TilesUpdate<kStates, kBits, Hyper, Step> tiles(arrays, range, step);
    if (!tiles.Run(begin, size)) Mark(arrays.not_finite);
  };
  switch (arrays.bits) {
    case 8:
      return update.template operator()<8>();
    case 16:
      return update.template operator()<16>();
    case 32:
      return update.template operator()<32>();
    default:
      if constexpr (kStates == 1) update.template operator()<0>();
  }
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_INL_H_
