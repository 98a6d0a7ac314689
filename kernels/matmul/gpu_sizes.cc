#include "kernels/cuda/gemm.h"
#include "kernels/matmul/matmul.h"

namespace castor::kernels {

int64_t MatmulArgs::GpuWorkspaceBytes() const {
  return cuda::GemmWorkspaceBytes(m, n);
}

}  // namespace castor::kernels
