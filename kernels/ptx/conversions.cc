// cvt: between numbers.
#include <algorithm>
#include <cmath>

#include "base/dtype.h"
#include "kernels/ptx/operation_table.h"

namespace castor::kernels::ptx {
namespace {

template <class D, class A>
struct Convert {
  D operator()(A a) const { return static_cast<D>(a); }
};
// One rounding, to nearest even.
template <class T>
struct ToHalf {
  uint16_t operator()(float a) const { return T(a).bits; }
};
template <class T>
struct FromHalf {
  float operator()(uint16_t bits) const {
    T value;
    value.bits = bits;
    return static_cast<float>(value);
  }
};
// The first operand goes to the upper half.
template <class T>
struct ToHalves {
  uint32_t operator()(float high, float low) const {
    return uint32_t{ToHalf<T>()(low)} | uint32_t{ToHalf<T>()(high)} << 16;
  }
};
struct Saturate {
  float operator()(float a) const {
    return std::isnan(a) ? 0.0f : std::clamp(a, 0.0f, 1.0f);
  }
};
struct ToNearest {
  float operator()(float a) const { return std::nearbyint(a); }
};
struct ToZero {
  float operator()(float a) const { return std::trunc(a); }
};

template <class D, class A>
Operation Plain() {
  return {.execute = Unary<D, A, Convert<D, A>>,
          .widths = {sizeof(D), sizeof(A)}};
}

}  // namespace

void AddConversions(OperationTable* table) {
  OperationTable& t = *table;
  t["cvt.s64.s32"] = Plain<int64_t, int32_t>();
  t["cvt.u64.u32"] = Plain<uint64_t, uint32_t>();
  t["cvt.u32.u64"] = Plain<uint32_t, uint64_t>();
  t["cvt.u16.u32"] = Plain<uint16_t, uint32_t>();
  t["cvt.u32.u16"] = Plain<uint32_t, uint16_t>();
  t["cvt.rn.f32.s32"] = Plain<float, int32_t>();
  t["cvt.rn.f64.s64"] = Plain<double, int64_t>();
  t["cvt.f64.f32"] = Plain<double, float>();
  t["cvt.rn.f32.f64"] = Plain<float, double>();
  t["cvt.f32.f16"] = {.execute = Unary<float, uint16_t, FromHalf<Float16>>,
                      .widths = {4, 2}};
  t["cvt.rn.f16.f32"] = {.execute = Unary<uint16_t, float, ToHalf<Float16>>,
                         .widths = {2, 4}};
  t["cvt.rn.bf16.f32"] = {.execute = Unary<uint16_t, float, ToHalf<BFloat16>>,
                          .widths = {2, 4}};
  t["cvt.rn.f16x2.f32"] = {
      .execute = Binary<uint32_t, float, float, ToHalves<Float16>>,
      .widths = {4, 4, 4}};
  t["cvt.rn.bf16x2.f32"] = {
      .execute = Binary<uint32_t, float, float, ToHalves<BFloat16>>,
      .widths = {4, 4, 4}};
  t["cvt.sat.f32.f32"] = {.execute = Unary<float, float, Saturate>,
                          .widths = {4, 4}};
  t["cvt.rni.f32.f32"] = {.execute = Unary<float, float, ToNearest>,
                          .widths = {4, 4}};
  t["cvt.rzi.f32.f32"] = {.execute = Unary<float, float, ToZero>,
                          .widths = {4, 4}};
}

}  // namespace castor::kernels::ptx
