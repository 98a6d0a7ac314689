#include "kernels/cuda/kernels.h"
#include "run/gpu_kernels.h"

namespace castor {

const kernels::KernelTable* GpuKernelsOfThisBuild() {
  return kernels::cuda::Kernels();
}

int OldestCapabilityOfThisBuild() { return kernels::cuda::OldestCapability(); }

}  // namespace castor
