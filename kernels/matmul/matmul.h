// Matrix products.
//
// Sums are formed in fp32, also of 16-bit operands, whose result is rounded
// once to nearest even. The work is cut into tiles only by shapes, so the bits
// of a result do not depend on the number of threads. On the host bf16 is
// multiplied by the processor's own instructions if it has them, which treat
// subnormal numbers as 0 (kernels/cpu/bf16_gemm.h); otherwise, and in fp16,
// operands are widened to fp32.
//
// On a GPU the products are cuBLASLt's, whose bits are not the host's: fp32 is
// multiplied in fp32, never in TF32. Operands must be aligned to 16 bytes, as
// all of the runtime's are, since cuBLASLt would choose its algorithm by the
// alignment; others are refused (InvalidArgument).
#ifndef CASTOR_KERNELS_MATMUL_MATMUL_H_
#define CASTOR_KERNELS_MATMUL_MATMUL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// c [M, N] = op(a) [M, K] * op(b) [K, N] (+ bias [N]) (+ c if accumulate).
// Row-major; lda, ldb, ldc are the distances between rows in elements, of the
// matrices as stored (so a is [K, M] in memory when transpose_a).
struct MatmulArgs {
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  int64_t lda = 0;
  bool transpose_a = false;
  const void* b = nullptr;
  int64_t ldb = 0;
  bool transpose_b = false;
  void* c = nullptr;
  int64_t ldc = 0;
  const void* bias = nullptr;  // null: none
  bool accumulate = false;     // c + product is formed in fp32
  DType dtype = DType::kFloat32;
  void* workspace = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
  int64_t CpuWorkspaceBytes() const;  // 0
  int64_t GpuWorkspaceBytes() const;  // depends on m and n, 1 to 32 MiB
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_MATMUL_MATMUL_H_
