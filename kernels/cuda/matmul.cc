#include "kernels/matmul.h"

#include <algorithm>

#include "base/status_macros.h"
#include "base/with_type.h"
#include "kernels/checks.h"
#include "kernels/cuda/elementwise_program.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/status.h"

namespace castor::kernels::cuda {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Of depth 0: what was there, or 0, and the bias.
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

int64_t GemmWorkspaceBytes(int64_t m, int64_t n) {
  // 32 MiB is what cuBLAS asks for on Hopper, and results of that size and more
  // fill a GPU without cutting k. Below, room for 8 parts in fp32.
  if (m <= 0 || n <= 0) return 0;
  if (m > 32 * kMiB / n) return 32 * kMiB;
  return std::clamp(32 * m * n, kMiB, 32 * kMiB);
}

int64_t MatmulWorkspaceBytes(const MatmulArgs& args) {
  return GemmWorkspaceBytes(args.m, args.n);
}

absl::Status Matmul(const ExecContext& context, const MatmulArgs& args) {
  CASTOR_RETURN_IF_ERROR(CheckMatmul(args));
  if (args.m == 0 || args.n == 0) return absl::OkStatus();
  if (args.k == 0) {
    return WithType(args.dtype,
                    [&]<class T>(T) { return NoProduct<T>(context, args); });
  }
  return Gemm(context, {.m = args.m,
                        .n = args.n,
                        .k = args.k,
                        .a = args.a,
                        .lda = args.lda,
                        .transpose_a = args.transpose_a,
                        .b = args.b,
                        .ldb = args.ldb,
                        .transpose_b = args.transpose_b,
                        .c = args.c,
                        .ldc = args.ldc,
                        .bias = args.bias,
                        .accumulate = args.accumulate,
                        .operands = args.dtype,
                        .result = args.dtype,
                        .workspace = args.workspace});
}

}  // namespace castor::kernels::cuda
