// The common parts of the vector loops, compiled once per instruction set:
// loads and stores of every element type as fp32, tails, the fused
// multiply-add.
//
// Include kernels/cpu/targets.h first; the guard follows Highway's scheme for
// headers that are included once per target.
#if defined(CASTOR_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_KERNELS_CPU_SIMD_INL_H_
#undef CASTOR_KERNELS_CPU_SIMD_INL_H_
#else
#define CASTOR_KERNELS_CPU_SIMD_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "base/with_type.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A vector has at most 16 lanes: 1 (scalar), 4 (NEON), 8 (AVX2) or 16
// (AVX-512).
using F32 = hn::CappedTag<float, 16>;
using VF32 = hn::Vec<F32>;
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(F32()));

// a b + c, rounded once on every target.
template <class V>
HWY_INLINE V Fma(V a, V b, V c) {
#if HWY_TARGET == HWY_SCALAR
  return V(std::fma(a.raw, b.raw, c.raw));
#else
  return hn::MulAdd(a, b, c);
#endif
}

// Loads as many elements as the float tag `d` has lanes; exact.
template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const BFloat16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const Float16* p) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, static_cast<float>(*p));
#else
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(
      d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
#endif
}

template <class T>
HWY_INLINE VF32 Load(const T* p) {
  return LoadAs(F32(), p);
}

HWY_INLINE void Store(VF32 v, float* p) { hn::StoreU(v, F32(), p); }

// The bits of BFloat16(float): to nearest even, NaNs quiet.
HWY_INLINE void Store(VF32 v, BFloat16* p) {
  const hn::Rebind<uint16_t, F32> d16;
  const hn::RebindToUnsigned<F32> d32;
  const hn::RebindToSigned<F32> di32;
  const auto u = hn::BitCast(d32, v);
  const auto upper = hn::ShiftRight<16>(u);
  const auto odd = hn::And(upper, hn::Set(d32, 1));
  const auto rounded =
      hn::ShiftRight<16>(hn::Add(u, hn::Add(odd, hn::Set(d32, 0x7fff))));
  const auto nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto bits =
      hn::IfThenElse(nan, hn::Or(upper, hn::Set(d32, 0x0040)), rounded);
  // The values are at most 0xffff, so the saturation never acts.
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, bits)), d16,
             reinterpret_cast<uint16_t*>(p));
}

// The bits of Float16(float), by the processor: AVX2's and AVX-512's
// instruction is told to round to nearest even, NEON does unless a program
// changes its mode. Highway's scalar code truncates, and has no infinity.
HWY_INLINE void Store(VF32 v, Float16* p) {
#if HWY_TARGET == HWY_SCALAR
  *p = Float16(hn::GetLane(v));
#else
  const hn::Rebind<hwy::float16_t, F32> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(p));
#endif
}

// Returns the address of an element of an array of T; null stays null.
template <class T>
HWY_INLINE const T* At(const void* p, int64_t element) {
  return p == nullptr ? nullptr : static_cast<const T*>(p) + element;
}
template <class T>
HWY_INLINE T* At(void* p, int64_t element) {
  return p == nullptr ? nullptr : static_cast<T*>(p) + element;
}

// Loads the first `count` lanes from memory, and sets the others to `pad`.
template <class T>
HWY_INLINE VF32 LoadPart(const T* p, int64_t count, float pad = 0.0f) {
  if (count >= kLanes) return Load(p);
  T lanes[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = i < count ? p[i] : T(pad);
  return Load(lanes);
}

template <class T>
HWY_INLINE void StorePart(VF32 v, T* p, int64_t count) {
  if (count >= kLanes) return Store(v, p);
  T lanes[kLanes];
  Store(v, lanes);
  if (count > 0) std::memcpy(p, lanes, count * sizeof(T));
}

// y[i] = op(x[i]...) for i in [0, size). y may be any of x.
template <class Op, class TY, class... TX>
HWY_INLINE void Map(const Op& op, int64_t size, TY* y, const TX*... x) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= size; i += 2 * kLanes) {
    const VF32 y0 = op(Load(x + i)...);
    const VF32 y1 = op(Load(x + i + kLanes)...);
    Store(y0, y + i);
    Store(y1, y + i + kLanes);
  }
  for (; i < size; i += kLanes) {
    StorePart(op(LoadPart(x + i, size - i)...), y + i, size - i);
  }
}

// y = x in another type.
struct CopyOp {
  HWY_INLINE VF32 operator()(VF32 x) const { return x; }
};

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // CASTOR_KERNELS_CPU_SIMD_INL_H_
