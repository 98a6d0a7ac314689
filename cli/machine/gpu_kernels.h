// The GPU's operators, where this program was built with them.
#ifndef CASTOR_CLI_MACHINE_GPU_KERNELS_H_
#define CASTOR_CLI_MACHINE_GPU_KERNELS_H_

#include "kernels/kernel_table.h"

namespace castor::cli {

// Null where the build has none (gpu_kernels_absent.cc).
const kernels::KernelTable* GpuKernelsOfThisBuild();

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_GPU_KERNELS_H_
