// Matrix products.
//
// Arithmetic: fp32, also for 16-bit operands, whose result is rounded once to
// nearest even. The work is cut into tiles by the shapes alone, so the bits of
// a result do not depend on the number of threads.
#ifndef CASTOR_KERNELS_MATMUL_H_
#define CASTOR_KERNELS_MATMUL_H_

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
  void* workspace = nullptr;  // MatmulWorkspaceBytes() bytes on the device
};

// Depends on shapes, transposes and dtype only. 0 for fp32.
int64_t MatmulWorkspaceBytes(const MatmulArgs& args);

absl::Status Matmul(const ExecContext& context, const MatmulArgs& args);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_MATMUL_H_
