// Single-threaded product of bf16 matrices by the processor's own bf16
// instructions, if it has any, through oneDNN's matmul.
#ifndef CASTOR_KERNELS_CPU_BF16_GEMM_H_
#define CASTOR_KERNELS_CPU_BF16_GEMM_H_

#include <cstdint>

#include "absl/status/status.h"

namespace castor::kernels::cpu {

// Returns true if the processor multiplies bf16 and sums in fp32 (AVX-512 BF16,
// AMX), and oneDNN uses that. Only then may Bf16Gemm be called.
bool HasBf16Gemm();

// c [m, n] = op(a) [m, k] * op(b) [k, n] (+ c if accumulate), row-major, on the
// calling thread only; a and b in bf16, c in fp32. Sums are formed in fp32.
// Without accumulate, c is not read. These instructions treat subnormal
// operands and sums as 0. The bits do not depend on the alignment of the
// pointers.
absl::Status Bf16Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                      int64_t k, const void* a, int64_t lda, const void* b,
                      int64_t ldb, bool accumulate, float* c, int64_t ldc);

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_CPU_BF16_GEMM_H_
