#include "tests/on_gpu.h"

#include <memory>
#include <utility>

#include "device/cuda/cuda_device.h"

namespace castor::testing {

TrainingCase OnGpu(TrainingCase c, cuda::Api* api,
                   const kernels::KernelTable* kernels) {
  c.options.gpu_sizes = kernels;
  c.options.open_device =
      [api, kernels](
          int64_t memory_bytes) -> absl::StatusOr<std::unique_ptr<Device>> {
    auto device =
        CudaDevice::Create(api, {.memory_bytes = memory_bytes,
                                 .kernels = kernels,
                                 .load_kernels = kernels->load,
                                 .describe_fault = kernels->describe_fault});
    if (!device.ok()) return device.status();
    return std::unique_ptr<Device>(*std::move(device));
  };
  return c;
}

}  // namespace castor::testing
