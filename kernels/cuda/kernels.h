// The GPU's table of kernels: each operator's RunOnGpu, whose contract is in
// kernels/operators.h. No header of CUDA is included here.
#ifndef CASTOR_KERNELS_CUDA_KERNELS_H_
#define CASTOR_KERNELS_CUDA_KERNELS_H_

#include "absl/status/status.h"
#include "device/gpu_context.h"
#include "kernels/kernel_table.h"

namespace castor::kernels::cuda {

const KernelTable* Kernels();

// Implements KernelTable::load. Internal: CUDA's words, such as when there is
// no machine code for the GPU. Costs some milliseconds the first time, next to
// nothing later.
absl::Status LoadKernels();

// The oldest compute capability, as 75, for which any of them was compiled; 0:
// they are emulated.
int OldestCapability();

// Describes a fault by the kernel's Args::DescribeFault.
absl::Status DescribeFault(const GpuFault& fault);

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_KERNELS_H_
