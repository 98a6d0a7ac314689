// The GPU's operators, where this program was built with them.
#ifndef CASTOR_RUN_GPU_KERNELS_H_
#define CASTOR_RUN_GPU_KERNELS_H_

#include "kernels/kernel_table.h"

namespace castor {

// Null where the build has none (gpu_kernels_absent.cc).
const kernels::KernelTable* GpuKernelsOfThisBuild();

// The oldest compute capability, as 75, for which the build has some of them.
int OldestCapabilityOfThisBuild();

}  // namespace castor

#endif  // CASTOR_RUN_GPU_KERNELS_H_
