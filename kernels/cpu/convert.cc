#include "kernels/cpu/convert.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/convert.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void ToFloatImpl(const BFloat16* x, int64_t size, float* y) {
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::Rebind<uint16_t, decltype(df)> dh;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  const uint16_t* bits = reinterpret_cast<const uint16_t*>(x);
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto wide = hn::PromoteTo(du, hn::LoadU(dh, bits + i));
    hn::StoreU(hn::BitCast(df, hn::ShiftLeft<16>(wide)), df, y + i);
  }
  for (; i < size; ++i) y[i] = static_cast<float>(x[i]);
}

void ToBFloat16Impl(const float* x, int64_t size, BFloat16* y) {
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<uint16_t, decltype(df)> dh;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  uint16_t* bits = reinterpret_cast<uint16_t*>(y);
  const auto half = hn::Set(du, 0x7fffu);
  const auto one = hn::Set(du, 1u);
  const auto quiet = hn::Set(du, 0x0040u);
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto v = hn::LoadU(df, x + i);
    const auto u = hn::BitCast(du, v);
    const auto upper = hn::ShiftRight<16>(u);
    const auto odd = hn::And(upper, one);
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(u, half), odd));
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    const auto result = hn::IfThenElse(nan, hn::Or(upper, quiet), rounded);
    // At most 0xffff, so the saturation of DemoteTo never acts.
    hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, result)), dh, bits + i);
  }
  for (; i < size; ++i) y[i] = BFloat16(x[i]);
}

void AddIntoImpl(const float* x, int64_t size, float* y) {
  const hn::ScalableTag<float> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(df, y + i), hn::LoadU(df, x + i)), df, y + i);
  }
  for (; i < size; ++i) y[i] += x[i];
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels::cpu {

HWY_EXPORT(ToFloatImpl);
HWY_EXPORT(ToBFloat16Impl);
HWY_EXPORT(AddIntoImpl);

void ToFloat(const BFloat16* x, int64_t size, float* y) {
  HWY_DYNAMIC_DISPATCH(ToFloatImpl)(x, size, y);
}

void ToBFloat16(const float* x, int64_t size, BFloat16* y) {
  HWY_DYNAMIC_DISPATCH(ToBFloat16Impl)(x, size, y);
}

void AddInto(const float* x, int64_t size, float* y) {
  HWY_DYNAMIC_DISPATCH(AddIntoImpl)(x, size, y);
}

void LoadTile(DType dtype, const void* x, int64_t ldx, int64_t rows,
              int64_t columns, float* y, int64_t ldy) {
  if (columns == ldx && columns == ldy) {
    columns *= rows;
    rows = std::min<int64_t>(rows, 1);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const void* row = Offset(dtype, x, r * ldx);
    if (dtype == DType::kBFloat16) {
      ToFloat(static_cast<const BFloat16*>(row), columns, y + r * ldy);
    } else {
      std::memcpy(y + r * ldy, row, columns * sizeof(float));
    }
  }
}

void StoreTile(DType dtype, const float* x, int64_t ldx, int64_t rows,
               int64_t columns, void* y, int64_t ldy) {
  if (columns == ldx && columns == ldy) {
    columns *= rows;
    rows = std::min<int64_t>(rows, 1);
  }
  for (int64_t r = 0; r < rows; ++r) {
    void* row = Offset(dtype, y, r * ldy);
    if (dtype == DType::kBFloat16) {
      ToBFloat16(x + r * ldx, columns, static_cast<BFloat16*>(row));
    } else {
      std::memcpy(row, x + r * ldx, columns * sizeof(float));
    }
  }
}

FloatView AsFloat(DType dtype, const void* x, int64_t ldx, int64_t rows,
                  int64_t columns, float* buffer) {
  if (dtype == DType::kFloat32) return {static_cast<const float*>(x), ldx};
  LoadTile(dtype, x, ldx, rows, columns, buffer, columns);
  return {buffer, columns};
}

}  // namespace castor::kernels::cpu
#endif  // HWY_ONCE
