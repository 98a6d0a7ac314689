// A pass over a chunk's elements, tile by tile, in which what moves in memory
// is what the states' formats take (kernels/state_update/state_update.h).
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

// The format of a state of kBits bits. If kBits is 0 there are no states, and
// what a tile has in their place is fp32, which nobody rounds.
template <int kBits, int kState>
inline constexpr StateFormat kFormatOf = kBits == 0
                                             ? StateFormat::kFloat32
                                             : FormatOfState(kBits, kState);

// Tiles that are updated together, so that the processor finds work while it
// waits for the largest of a tile's values, on which all its codes depend.
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
      hn::Store(hn::Or(hn::ShiftLeft<16>(w), hn::ShiftRight<16>(w)), d32,
                words[t] + kHalf + i);
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

// Whole tiles of values of a type, in fp32 and back.
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

// Updates a range of the arrays by step(g, p, state 0, ...), which makes new
// values of p and of the states.
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

  // Elements [begin, begin + size), where `begin` is a multiple of kStateTile.
  // Returns whether all that is written is finite.
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

  // Where the new values of a tile's states are until they are rounded.
  HWY_INLINE float* NewState(int state, int64_t at, int64_t tile) {
    return kBits == 32 ? reinterpret_cast<float*>(arrays_.states[state]) + at
                       : states_[tile][state];
  }

  // Where the gradients of a group's tiles are in type G.
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
  // Where its masters are in fp32.
  HWY_INLINE const float* OldMasters(int64_t begin, int64_t count) {
    if (!rounds_master_) {
      return reinterpret_cast<const float*>(old_master_) + begin;
    }
    WidenMasters(arrays_, old_master_, begin, count, p_[0]);
    return p_[0];
  }
  // Rounds its masters, unless they are fp32, and stores the payload.
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

  // Steps the elements of a tile. If G is bf16 it stores the payload, too,
  // whose bits are right if the result is true: all new values are finite.
  template <class G>
  HWY_INLINE bool StepTile(int64_t at, int64_t tile, const G* g,
                           const float* old_p, Seen<0>& first_seen,
                           Seen<kLast>& last_seen) {
    const Step step = step_;
    const uint32_t* const words = words_[tile];
    float* const p =
        rounds_master_ ? p_[tile] : reinterpret_cast<float*>(master_) + at;
    float* const new_first = NewState(0, at, tile);
    float* const new_last = NewState(kLast, at, tile);
    auto* const payload = static_cast<uint16_t*>(arrays_.payload) + at;
    const Reader<0> read_first(old_[0], arrays_.elements, at);
    const Reader<kLast> read_last(old_[kLast], arrays_.elements, at);
    FiniteWatch watch;
    Seen<0> first_of_tile;
    Seen<kLast> last_of_tile;
    for (int64_t i = 0; i < kStateTile; i += kLanes) {
      VF32 vp = Load(old_p + i);
      VF32 first = read_first(i);
      if constexpr (kStates == 1) {
        step(Load(g + i), vp, first);
      } else {
        VF32 last = read_last(i);
        step(Load(g + i), vp, first, last);
        last_of_tile.See(last, words + i);
        Store(last, new_last + i);
      }
      first_of_tile.See(first, words + i);
      Store(first, new_first + i);
      watch.See(vp);
      Store(vp, p + i);
      if constexpr (std::is_same_v<G, BFloat16>) {
        StoreLow(UpperHalves(vp), payload + i);
      }
    }
    first_seen = first_of_tile;
    last_seen = last_of_tile;
    return watch.all_finite() && first_of_tile.finite() &&
           (kStates == 1 || last_of_tile.finite());
  }

  // Whole tiles, at most kGroup.
  template <class G>
  HWY_INLINE bool UpdateGroup(int64_t begin, int64_t tiles) {
    const int64_t size = arrays_.elements;
    DrawWords(begin, tiles);
    const G* const g = Gradients<G>(begin, tiles * kStateTile);
    const float* const old_p = OldMasters(begin, tiles * kStateTile);
    bool finite[kGroup];
    bool all_finite = true;
    Seen<0> first_seen[kGroup];
    Seen<kLast> last_seen[kGroup];
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t offset = t * kStateTile;
      finite[t] = StepTile<G>(begin + offset, t, g + offset, old_p + offset,
                              first_seen[t], last_seen[t]);
      all_finite &= finite[t];
    }
    for (int64_t t = 0; kRounds && t < tiles; ++t) {
      const int64_t at = begin + t * kStateTile;
      const Writer<0> write_first(first_seen[t], states_[t][0], words_[t],
                                  arrays_.states[0], size, at);
      if constexpr (kStates == 1) {
        for (int64_t i = 0; i < kStateTile; i += kLanes) write_first(i);
      } else {
        const Writer<1> write_last(last_seen[t], states_[t][1], words_[t],
                                   arrays_.states[1], size, at);
        for (int64_t i = 0; i < kStateTile; i += kLanes) {
          write_first(i);
          write_last(i);
        }
      }
    }
    for (int64_t t = 0; kRounds && !all_finite && t < tiles; ++t) {
      for (int k = 0; !finite[t] && k < kStates; ++k) {
        RoundTile(FormatOfState(kBits, k), k, states_[t][k], words_[t],
                  arrays_.states[k], size, begin + t * kStateTile, kStateTile);
      }
    }
    if (std::is_same_v<G, float> || !all_finite) {
      StoreMasters(begin, tiles, all_finite);
    }
    return all_finite;
  }

  // The first `count` elements of a tile, of whose others nothing shows.
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
  HWY_ALIGN float states_[kGroup][kStates][kStateTile];
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
