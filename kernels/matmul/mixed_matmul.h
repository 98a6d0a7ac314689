// A product on the host whose operands and result differ in type. Used by fused
// operators that keep fp32 in their workspace.
#ifndef CASTOR_KERNELS_MATMUL_MIXED_MATMUL_H_
#define CASTOR_KERNELS_MATMUL_MIXED_MATMUL_H_

#include "absl/status/status.h"
#include "base/dtype.h"
#include "kernels/matmul/matmul.h"

namespace castor::kernels::cpu {

struct MatmulTypes {
  DType operands = DType::kFloat32;
  DType result = DType::kFloat32;  // and of the bias
};

// Does the same as MatmulArgs::RunOnCpu with `args`, but ignores args.dtype.
// The caller must have checked the arguments.
absl::Status MixedMatmul(const ExecContext& context, const MatmulArgs& args,
                         const MatmulTypes& types);

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_MATMUL_MIXED_MATMUL_H_
