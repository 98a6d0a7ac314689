// Fragments of the matrix units: mma.sync.m16n8k16 with 16-bit operands and
// fp32 sums, and ldmatrix, which reads its operands. Source: NVIDIA, "Parallel
// Thread Execution ISA", 9.7.14.5, "Matrix fragments for mma.m16n8k16".
//
// A warp multiplies A [16, 16] by B [16, 8] and adds to C [16, 8]. Lane l has,
// with g = l / 4 and j = 2 (l % 4), two neighbouring elements in each register
// of A and B, the one with the lower index in the lower half:
//
//   a[0] A[g, j]        b[0] B[j, g]        c[0], c[1]  C[g, j], C[g, j + 1]
//   a[1] A[g + 8, j]    b[1] B[j + 8, g]    c[2], c[3]  C[g + 8, j], ...
//   a[2] A[g, j + 8]
//   a[3] A[g + 8, j + 8]
//
// So two neighbouring C, [16, 16], rounded and packed, are one A.
//
// GpuBlock and EmulatedBlock (block.h) have Mma and LoadMatrices, both by whole
// warps.
#ifndef CASTOR_KERNELS_CUDA_MATRIX_UNIT_H_
#define CASTOR_KERNELS_CUDA_MATRIX_UNIT_H_

#include <cstdint>

#include "kernels/cuda/portable.h"

namespace castor::kernels::cuda {

inline constexpr int kMmaRows = 16;        // of A and C
inline constexpr int kMmaColumns = 8;      // of B and C
inline constexpr int kMmaDepth = 16;       // columns of A, rows of B
inline constexpr int kVectorElements = 8;  // 16 bytes: a row of ldmatrix

// A lane's registers of one product: C += A B.
struct MmaOperands {
  float* c;           // 4
  const uint32_t* a;  // 4
  const uint32_t* b;  // 2
};

// A lane's operands of ldmatrix.x4, which loads four matrices M0 to M3 of 8 x
// 8. Lane l names row l % 8 of matrix l / 8, 16 bytes at a multiple of 16 in
// shared memory. to[i] becomes Mi[g, j], Mi[g, j + 1]; transposed, Mi[j, g],
// Mi[j + 1, g].
struct MatrixLoad {
  const void* row;
  uint32_t* to;  // 4
};

// Rows of kD 16-bit elements in shared memory. A row is made of vectors of
// 16 bytes, which are permuted, so that the eight rows of a matrix lie in
// different banks. Two rows of 64 bytes share a line of all banks.
template <class T, int kCount, int kD>
struct MatrixRows {
  static constexpr int kVectors = kD / kVectorElements;
  static constexpr int kRowsOfLine = kVectors == 4 ? 2 : 1;
  static_assert(kVectors % 8 == 0 || kVectors == 4);
  alignas(16) T at[kCount][kD];

  CASTOR_HD T* Vector(int row, int vector) {
    return &at[row][Permuted(row, vector) * kVectorElements];
  }
  CASTOR_HD const T* Vector(int row, int vector) const {
    return &at[row][Permuted(row, vector) * kVectorElements];
  }

 private:
  CASTOR_HD static int Permuted(int row, int vector) {
    return vector ^ (row / kRowsOfLine & (8 / kRowsOfLine - 1));
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_MATRIX_UNIT_H_
