#include "cli/machine/gpu_kernels.h"

namespace castor::cli {

const kernels::KernelTable* GpuKernelsOfThisBuild() { return nullptr; }

}  // namespace castor::cli
