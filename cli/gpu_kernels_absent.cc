#include "cli/gpu_kernels.h"

namespace castor::cli {

const kernels::GpuKernels* GpuKernelsOfThisBuild() { return nullptr; }

}  // namespace castor::cli
