// The GPU's table of kernels: each operator's RunOnGpu (kernels/operators.h
// says what that must do). No header of CUDA is included here.
#ifndef CASTOR_KERNELS_CUDA_KERNELS_H_
#define CASTOR_KERNELS_CUDA_KERNELS_H_

#include "absl/status/status.h"
#include "device/gpu_context.h"
#include "kernels/kernel_table.h"

namespace castor::kernels::cuda {

const KernelTable* Kernels();

// KernelTable::load. Internal: CUDA's words, as when the GPU has no machine
// code of ours. Costs some milliseconds the first time, next to nothing later.
absl::Status LoadKernels();

// A fault in words: as the kernel's Args::DescribeFault has it.
absl::Status DescribeFault(const GpuFault& fault);

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_KERNELS_H_
