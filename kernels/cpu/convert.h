// Vector loops for several CPU kernels: conversions between any type and fp32,
// also for tiles of matrices. Chosen at run time for the processor (AVX2,
// AVX-512, ...); the results are the same on all of them and for every
// alignment.
#ifndef CASTOR_KERNELS_CPU_CONVERT_H_
#define CASTOR_KERNELS_CPU_CONVERT_H_

#include <cstdint>

#include "base/dtype.h"

namespace castor::kernels::cpu {

// y [size] = x of `dtype`, exact.
void ToFloat(DType dtype, const void* x, int64_t size, float* y);

// y [size] = x rounded to `dtype`, to nearest even, NaNs quiet: the bits of
// BFloat16(x[i]) or Float16(x[i]).
void FromFloat(DType dtype, const float* x, int64_t size, void* y);

// y [size] += x.
void AddInto(const float* x, int64_t size, float* y);

// The matrices below are row-major; `ld*` is the distance of rows in elements.

// y [rows, columns] = x as fp32, from `dtype`.
void LoadTile(DType dtype, const void* x, int64_t ldx, int64_t rows,
              int64_t columns, float* y, int64_t ldy);

// y [rows, columns] = x rounded to `dtype`.
void StoreTile(DType dtype, const float* x, int64_t ldx, int64_t rows,
               int64_t columns, void* y, int64_t ldy);

// A view of a matrix as fp32: the matrix itself if it is fp32, else a copy in
// `buffer` [rows, columns].
struct FloatView {
  const float* data = nullptr;
  int64_t ld = 0;
};
FloatView AsFloat(DType dtype, const void* x, int64_t ldx, int64_t rows,
                  int64_t columns, float* buffer);

// Returns `p` advanced by `elements` of `dtype`.
inline const void* Offset(DType dtype, const void* p, int64_t elements) {
  return static_cast<const char*>(p) + elements * SizeOf(dtype);
}
inline void* Offset(DType dtype, void* p, int64_t elements) {
  return static_cast<char*>(p) + elements * SizeOf(dtype);
}

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_CPU_CONVERT_H_
