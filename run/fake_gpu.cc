#include "run/fake_gpu.h"

#include <functional>
#include <utility>

#include "device/cuda/runtime_api.h"
#include "kernels/cuda/emulated_block.h"
#include "kernels/cuda/kernels.h"
#include "run/gpu_kernels.h"

namespace castor {

cuda::FakeApi& FakeGpu() {
  static auto* const gpu = [] {
    kernels::cuda::CurrentEmulatedQueue() = [](void* stream,
                                               std::function<void()> work) {
      cuda::FakeApi::Launch(stream, std::move(work));
    };
    return new cuda::FakeApi({.jitter_ns = 50'000});
  }();
  return *gpu;
}

namespace cuda {

absl::StatusOr<Api*> RuntimeApi() { return &FakeGpu(); }

}  // namespace cuda

const kernels::KernelTable* GpuKernelsOfThisBuild() {
  return kernels::cuda::Kernels();
}

int OldestCapabilityOfThisBuild() { return kernels::cuda::OldestCapability(); }

}  // namespace castor
