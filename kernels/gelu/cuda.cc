#include "base/with_type.h"
#include "kernels/cuda/launch_elementwise.h"
#include "kernels/gelu/gelu.h"
#include "kernels/gelu/gelu_program.h"

namespace castor::kernels {

absl::Status GeluForwardArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(dtype, [&]<class T>(T) {
    return cuda::LaunchUnary<cuda::GeluOp, T, T>(context, "GeluForward", size,
                                                 x, y);
  });
}

absl::Status GeluBackwardArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::LaunchBinary<cuda::GeluGradientOp>(context, "GeluBackward",
                                                  dtype, size, x, dy, dx);
}

}  // namespace castor::kernels
