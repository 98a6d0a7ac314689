// The product of one task: a tile of a larger product, with operands of up to
// 32 bits and sums in fp32.
#ifndef CASTOR_KERNELS_CPU_TILE_PRODUCT_H_
#define CASTOR_KERNELS_CPU_TILE_PRODUCT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"

namespace castor::kernels::cpu {

// A row-major matrix, a part of which is an operand.
struct Operand {
  DType dtype = DType::kFloat32;
  const void* data = nullptr;
  int64_t ld = 0;          // distance of its rows, as stored, in elements
  bool transpose = false;  // op(x) is its transpose

  // Returns the part of op(x) from `row` and `column` on.
  Operand From(int64_t row, int64_t column) const;
};

// The depth of the panels in which operands that the processor cannot multiply
// directly are copied to fp32.
inline constexpr int64_t kPanelDepth = 256;
inline constexpr int64_t PanelFloats(int64_t m, int64_t n) {
  return (m + n) * kPanelDepth;
}

// c [m, n] = op(a) [m, k] * op(b) [k, n] (+ c if accumulate), c in fp32, on the
// calling thread only. a and b are of one type. `panels` has room for
// PanelFloats(m, n) floats.
absl::Status TileProduct(int64_t m, int64_t n, int64_t k, const Operand& a,
                         const Operand& b, bool accumulate, float* c,
                         int64_t ldc, float* panels);

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_CPU_TILE_PRODUCT_H_
