#include "kernels/matmul/matmul.h"
#include "kernels/matmul/mixed_matmul.h"

namespace castor::kernels {

absl::Status MatmulArgs::RunOnCpu(const ExecContext& context) const {
  return cpu::MixedMatmul(context, *this, {dtype, dtype});
}

int64_t MatmulArgs::CpuWorkspaceBytes() const { return 0; }

}  // namespace castor::kernels
