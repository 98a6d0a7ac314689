#include "kernels/cpu/convert.h"

#include <algorithm>

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/convert.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

void ToFloatImpl(DType dtype, const void* x, int64_t size, float* y) {
  WithType(dtype,
           [&]<class T>(T) HWY_ATTR { Map(CopyOp(), size, y, At<T>(x, 0)); });
}

void FromFloatImpl(DType dtype, const float* x, int64_t size, void* y) {
  WithType(dtype,
           [&]<class T>(T) HWY_ATTR { Map(CopyOp(), size, At<T>(y, 0), x); });
}

void AddIntoImpl(const float* x, int64_t size, float* y) {
  Map([](VF32 a, VF32 b) HWY_ATTR { return hn::Add(a, b); }, size, y, y, x);
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels::cpu {

HWY_EXPORT(ToFloatImpl);
HWY_EXPORT(FromFloatImpl);
HWY_EXPORT(AddIntoImpl);

void ToFloat(DType dtype, const void* x, int64_t size, float* y) {
  HWY_DYNAMIC_DISPATCH(ToFloatImpl)(dtype, x, size, y);
}

void FromFloat(DType dtype, const float* x, int64_t size, void* y) {
  HWY_DYNAMIC_DISPATCH(FromFloatImpl)(dtype, x, size, y);
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
    ToFloat(dtype, Offset(dtype, x, r * ldx), columns, y + r * ldy);
  }
}

void StoreTile(DType dtype, const float* x, int64_t ldx, int64_t rows,
               int64_t columns, void* y, int64_t ldy) {
  if (columns == ldx && columns == ldy) {
    columns *= rows;
    rows = std::min<int64_t>(rows, 1);
  }
  for (int64_t r = 0; r < rows; ++r) {
    FromFloat(dtype, x + r * ldx, columns, Offset(dtype, y, r * ldy));
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
