#include "cli/machine/gpu_kernels.h"
#include "kernels/cuda/kernels.h"

namespace castor::cli {

const kernels::KernelTable* GpuKernelsOfThisBuild() {
  return kernels::cuda::Kernels();
}

}  // namespace castor::cli
