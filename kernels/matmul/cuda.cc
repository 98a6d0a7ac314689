#include "base/with_type.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_program.h"

namespace castor::kernels {
namespace cuda {
namespace {

// A product of depth 0 is the former value, or 0, plus the bias.
template <class T>
absl::Status NoProduct(const ExecContext& context, const MatmulArgs& args) {
  const int64_t size = args.m * args.n;
  return Launch(context, "Matmul (depth 0)", ElementBlocks(size),
                FillRowsProgram<T>{.rows = args.m,
                                   .columns = args.n,
                                   .stride = args.ldc,
                                   .row = static_cast<const T*>(args.bias),
                                   .y = static_cast<T*>(args.c),
                                   .accumulate = args.accumulate});
}

}  // namespace
}  // namespace cuda

absl::Status MatmulArgs::RunOnGpu(const ExecContext& context) const {
  if (m == 0 || n == 0) return absl::OkStatus();
  if (k == 0) {
    return WithType(
        dtype, [&]<class T>(T) { return cuda::NoProduct<T>(context, *this); });
  }
  return cuda::Gemm(context, {.m = m,
                              .n = n,
                              .k = k,
                              .a = a,
                              .lda = lda,
                              .transpose_a = transpose_a,
                              .b = b,
                              .ldb = ldb,
                              .transpose_b = transpose_b,
                              .c = c,
                              .ldc = ldc,
                              .bias = bias,
                              .accumulate = accumulate,
                              .operands = dtype,
                              .result = dtype,
                              .workspace = workspace});
}

}  // namespace castor::kernels
