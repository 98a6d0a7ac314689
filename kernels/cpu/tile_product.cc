#include "kernels/cpu/tile_product.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/cpu/bf16_gemm.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/gemm.h"

namespace castor::kernels::cpu {
namespace {

// op(x) [rows, columns] as fp32: itself where it is, or its copy in `buffer`.
FloatView Widened(const Operand& x, int64_t rows, int64_t columns,
                  float* buffer) {
  return AsFloat(x.dtype, x.data, x.ld, x.transpose ? columns : rows,
                 x.transpose ? rows : columns, buffer);
}

}  // namespace

Operand Operand::From(int64_t row, int64_t column) const {
  Operand part = *this;
  part.data =
      Offset(dtype, data, transpose ? column * ld + row : row * ld + column);
  return part;
}

absl::Status TileProduct(int64_t m, int64_t n, int64_t k, const Operand& a,
                         const Operand& b, bool accumulate, float* c,
                         int64_t ldc, float* panels) {
  CASTOR_CHECK(a.dtype == b.dtype);
  if (a.dtype == DType::kBFloat16 && HasBf16Gemm()) {
    return Bf16Gemm(a.transpose, b.transpose, m, n, k, a.data, a.ld, b.data,
                    b.ld, accumulate, c, ldc);
  }
  const int64_t panel = a.dtype == DType::kFloat32 ? k : kPanelDepth;
  int64_t from = 0;
  do {  // This runs once even if k is 0.
    const int64_t depth = std::min(panel, k - from);
    const FloatView left = Widened(a.From(0, from), m, depth, panels);
    const FloatView right =
        Widened(b.From(from, 0), depth, n, panels + m * depth);
    CASTOR_RETURN_IF_ERROR(Gemm(a.transpose, b.transpose, m, n, depth, 1.0f,
                                left.data, left.ld, right.data, right.ld,
                                from > 0 || accumulate ? 1.0f : 0.0f, c, ldc));
    from += depth;
  } while (from < k);
  return absl::OkStatus();
}

}  // namespace castor::kernels::cpu
