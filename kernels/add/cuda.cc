#include "kernels/add/add.h"
#include "kernels/add/add_program.h"
#include "kernels/cuda/launch_elementwise.h"

namespace castor::kernels {

absl::Status AddArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::LaunchBinary<cuda::AddOp>(context, "Add", dtype, size, a, b, y);
}

}  // namespace castor::kernels
