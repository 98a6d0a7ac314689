// Tile by tile, through buffers of a tile's floats in the first-level cache:
// what moves in memory is 8 bytes an element with codes of 8 bits in bf16,
// where Adam in fp32 moves 14, each way.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/adam/adam_math.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/range_pieces.h"
#include "kernels/cpu/targets.h"
#include "kernels/packed_adam/packed_adam.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/packed_adam/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/adam/adam-inl.h"
#include "kernels/adam/moments-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

using U32 = hn::RebindToUnsigned<F32>;
using VU32 = hn::Vec<U32>;
using U8 = hn::Rebind<uint8_t, F32>;
static_assert(kStateTile % kLanes == 0);

// A tile's values. Those behind a range's end are 0.
struct Tile {
  HWY_ALIGN float g[kStateTile];
  HWY_ALIGN float p[kStateTile];
  HWY_ALIGN float m[kStateTile];
  HWY_ALIGN float v[kStateTile];
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
    // What lies behind the end may be anything.
    if (i + kLanes > count) {
      value = hn::IfThenElseZero(
          hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(0, count - i))),
          value);
    }
    hn::Store(value, d, to + i);
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

// Returns whether the new values are finite (kernels/adam/cpu.cc).
template <bool kL2, bool kLerpFromM>
HWY_INLINE bool StepTile(const AdamScalars& scalars, Tile& x) {
  const AdamStep<kL2, kLerpFromM> step(scalars);
  const F32 d;
  FiniteWatch watch;
  for (int64_t i = 0; i < kStateTile; i += kLanes) {
    VF32 p = hn::Load(d, x.p + i);
    VF32 m = hn::Load(d, x.m + i);
    VF32 v = hn::Load(d, x.v + i);
    step(hn::Load(d, x.g + i), p, m, v);
    watch.See(p);
    watch.See(v);
    hn::Store(p, d, x.p + i);
    hn::Store(m, d, x.m + i);
    hn::Store(v, d, x.v + i);
  }
  return watch.all_finite();
}

HWY_INLINE bool StepTileOfAny(const AdamScalars& s, Tile& x) {
  if (s.l2) {
    return s.moments.lerp_from_m ? StepTile<true, true>(s, x)
                                 : StepTile<true, false>(s, x);
  }
  return s.moments.lerp_from_m ? StepTile<false, true>(s, x)
                               : StepTile<false, false>(s, x);
}

// The new values of the first `count` lanes alone are looked at: where eps is
// 0, lanes without an element hold 0 / 0.
HWY_INLINE bool FirstAreFinite(const Tile& x, int64_t count) {
  FiniteWatch watch;
  for (int64_t i = 0; i < count; i += kLanes) {
    watch.SeePart(hn::Load(F32(), x.p + i), count - i);
    watch.SeePart(hn::Load(F32(), x.v + i), count - i);
  }
  return watch.all_finite();
}

// Elements [begin, begin + size) of the arrays, of the given range.
void PackedAdamImpl(const PackedAdamArgs& args, const PackedAdamRange& range,
                    const AdamScalars& scalars, int64_t begin, int64_t size) {
  constexpr auto kM = StateFormat::kSigned8;
  constexpr auto kV = StateFormat::kUnsigned8;
  const bool aside = args.from.master != nullptr;
  const float* const old_master = aside ? args.from.master : args.master;
  const std::byte* const old_m = aside ? args.from.m : args.m;
  const std::byte* const old_v = aside ? args.from.v : args.v;
  Tile x;
  HWY_ALIGN uint32_t words[kStateTile];
  bool finite = true;
  for (int64_t at = begin; at < begin + size; at += kStateTile) {
    const int64_t count = std::min(kStateTile, begin + size - at);
    WithType(args.dtype, [&]<class T>(T) HWY_ATTR {
      if (args.gradient_sum != nullptr) {
        LoadTile(args.gradient_sum + at, count, x.g);
      } else if (args.gradient != nullptr) {
        LoadTile(static_cast<const T*>(args.gradient) + at, count, x.g);
      } else {
        LoadTile(static_cast<const T*>(args.payload) + at, count, x.g);
      }
    });
    LoadTile(old_master + at, count, x.p);
    if (args.moment_bits == 8) {
      DecodeTile<kM>(old_m, args.elements, at, count, x.m);
      DecodeTile<kV>(old_v, args.elements, at, count, x.v);
    } else {
      LoadTile(reinterpret_cast<const BFloat16*>(old_m) + at, count, x.m);
      LoadTile(reinterpret_cast<const BFloat16*>(old_v) + at, count, x.v);
    }
    const bool tile_finite = StepTileOfAny(scalars, x);
    if (!tile_finite) finite &= FirstAreFinite(x, count);
    RandomWords(range.key,
                static_cast<uint64_t>(range.first + at - range.begin),
                kStateTile, words);
    if (args.moment_bits == 8) {
      std::fill(x.m + count, x.m + kStateTile, 0.0f);
      std::fill(x.v + count, x.v + kStateTile, 0.0f);
      EncodeTile<kM, 16>(x.m, words, args.m, args.elements, at);
      EncodeTile<kV, 0>(x.v, words, args.v, args.elements, at);
    } else {
      RoundTile<16>(x.m, words, count,
                    reinterpret_cast<BFloat16*>(args.m) + at);
      RoundTile<0>(x.v, words, count, reinterpret_cast<BFloat16*>(args.v) + at);
    }
    StoreTile(x.p, count, args.master + at);
    WithType(args.dtype, [&]<class T>(T) HWY_ATTR {
      StoreTile(x.p, count, static_cast<T*>(args.payload) + at);
    });
  }
  if (!finite) Mark(args.not_finite);
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(PackedAdamImpl);
}  // namespace cpu

namespace {

void Skip(const PackedAdamArgs& args, int64_t begin, int64_t end) {
  if (args.from.master != nullptr) {
    std::memcpy(args.master + begin, args.from.master + begin,
                (end - begin) * sizeof(float));
    CopyStates(args.m_format(), args.from.m, args.m, args.elements, begin, end);
    CopyStates(args.v_format(), args.from.v, args.v, args.elements, begin, end);
  }
  cpu::FromFloat(args.dtype, args.master + begin, end - begin,
                 cpu::Offset(args.dtype, args.payload, begin));
}

}  // namespace

absl::Status PackedAdamArgs::RunOnCpu(const ExecContext& context) const {
  if (num_ranges == 0) return absl::OkStatus();
  const bool skip = !std::isfinite(*grad_scale);
  std::vector<AdamScalars> scalars(num_ranges);
  for (int64_t r = 0; r < num_ranges; ++r) {
    scalars[r] = MakeAdamScalars(ranges[r].hyper);
    scalars[r].grad_scale = *grad_scale;
  }
  static_assert(cpu::kPieceGranule % kStateTile == 0);
  cpu::ParallelPieces(context, ranges, num_ranges,
                      [&](int64_t r, int64_t begin, int64_t end) {
                        if (skip) {
                          Skip(*this, begin, end);
                          return;
                        }
                        CASTOR_CPU_DISPATCH(PackedAdamImpl)
                        (*this, ranges[r], scalars[r], begin, end - begin);
                      });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
