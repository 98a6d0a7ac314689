// The matrix product of all GPU operators: cuBLASLt's (cublaslt_gemm.cc), or
// the host's where programs are emulated.
#ifndef CASTOR_KERNELS_CUDA_GEMM_H_
#define CASTOR_KERNELS_CUDA_GEMM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels::cuda {

// c [M, N] = op(a) [M, K] op(b) [K, N] (+ bias [N]) (+ c), row-major, formed in
// fp32 and rounded once to `result`. See kernels/matmul/matmul.h for the names.
struct GemmArgs {
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  int64_t lda = 0;
  bool transpose_a = false;
  const void* b = nullptr;
  int64_t ldb = 0;
  bool transpose_b = false;
  void* c = nullptr;
  int64_t ldc = 0;
  const void* bias = nullptr;  // of type `result`
  bool accumulate = false;
  DType operands = DType::kFloat32;  // of a and b
  DType result = DType::kFloat32;    // of c; fp32 or `operands`
  void* workspace = nullptr;         // GemmWorkspaceBytes(m, n)
};

// Returns the workspace of a product that cuts k into parts, whose sums are
// added in order. Small results use it; a large one never needs it.
int64_t GemmWorkspaceBytes(int64_t m, int64_t n);

// The choice of an algorithm depends on sizes, distances, types and the GPU's
// model, never on addresses: a, b, c and bias must be multiples of
// kGemmAlignment, the workspace of kGemmWorkspaceAlignment (cuBLASLt's rule),
// or the call is refused (InvalidArgument). The runtime's blocks and parameters
// all are.
inline constexpr int64_t kGemmAlignment = 16;
inline constexpr int64_t kGemmWorkspaceAlignment = 256;
// A product is one launch, or two if k is cut into parts;
// GpuContext::BeforeLaunches is called with this number.
inline constexpr int64_t kMostLaunchesOfGemm = 2;
absl::Status Gemm(const ExecContext& context, const GemmArgs& args);

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_GEMM_H_
