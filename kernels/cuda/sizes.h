// The sizes that the GPU's kernels take (kernels/kernel_sizes.h). It is a part
// of kernels::cuda::Kernels(), and of builds that have no such table. Both are
// constants: a thread that reads them need not wait for one that makes them.
#ifndef CASTOR_KERNELS_CUDA_SIZES_H_
#define CASTOR_KERNELS_CUDA_SIZES_H_

#include <cstdint>

#include "kernels/kernel_sizes.h"

namespace castor::kernels::cuda {

struct GpuSize {
  template <class Args>
  static int64_t WorkspaceBytes(const Args& args) {
    return args.GpuWorkspaceBytes();
  }
};

inline constexpr KernelSizes kSizes = MakeKernelSizes<GpuSize>();

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_SIZES_H_
