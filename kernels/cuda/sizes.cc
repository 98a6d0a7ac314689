#include "kernels/cuda/sizes.h"

#include <cstdint>

namespace castor::kernels::cuda {
namespace {

struct Gpu {
  template <class Args>
  static int64_t WorkspaceBytes(const Args& args) {
    return args.GpuWorkspaceBytes();
  }
};

}  // namespace

const KernelSizes* Sizes() {
  static constexpr KernelSizes kSizes = MakeKernelSizes<Gpu>();
  return &kSizes;
}

}  // namespace castor::kernels::cuda
