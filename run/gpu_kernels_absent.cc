#include "run/gpu_kernels.h"

namespace castor {

const kernels::KernelTable* GpuKernelsOfThisBuild() { return nullptr; }

int OldestCapabilityOfThisBuild() { return 0; }

}  // namespace castor
