// Gemm where programs are emulated: the host's product, with the checks of
// cuBLASLt's.
#include <algorithm>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "device/gpu_context.h"
#include "kernels/cuda/emulated_block.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gemm_checks.h"
#include "kernels/matmul/mixed_matmul.h"

namespace castor::kernels::cuda {

absl::Status Gemm(const ExecContext& context, const GemmArgs& args) {
  if (absl::Status status = CheckGemm(args); !status.ok()) return status;
  context.gpu->BeforeLaunches(kMostLaunchesOfGemm);
  RunEmulated(context.gpu->stream, [args] {
    // The workspace may hold anything afterwards, and must be there.
    std::fill_n(static_cast<char*>(args.workspace),
                GemmWorkspaceBytes(args.m, args.n), '\xff');
    ThreadPool pool(1);
    const absl::Status status =
        cpu::MixedMatmul(ExecContext{&pool},
                         {.m = args.m,
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
                          .accumulate = args.accumulate},
                         {args.operands, args.result});
    CASTOR_CHECK(status.ok());
  });
  return absl::OkStatus();
}

}  // namespace castor::kernels::cuda
