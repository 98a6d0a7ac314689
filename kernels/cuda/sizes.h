// What the GPU's kernels take (kernels/kernel_sizes.h): each operator's
// GpuWorkspaceBytes. It is a part of kernels::cuda::Kernels(), and of builds
// that have no such table.
#ifndef CASTOR_KERNELS_CUDA_SIZES_H_
#define CASTOR_KERNELS_CUDA_SIZES_H_

#include "kernels/kernel_sizes.h"

namespace castor::kernels::cuda {

const KernelSizes* Sizes();

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_SIZES_H_
