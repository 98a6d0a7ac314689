#include <memory>
#include <string>
#include <utility>

#include "device/cuda/cuda_device.h"
#include "device/cuda/runtime_api.h"
#include "kernels/cuda/kernels.h"
#include "tests/test_machine.h"

namespace castor::testing {

std::string WhyNoTestMachine() {
  const auto found = cuda::RuntimeApi();
  const absl::Status status =
      found.ok() ? (*found)->CountDevices().status() : found.status();
  return std::string(status.message());
}

TrainingCase OnTestMachine(TrainingCase c) {
  const kernels::GpuKernels* table = kernels::cuda::Kernels();
  c.options.gpu_kernels = table;
  c.options.open_device =
      [table](int64_t memory_bytes) -> absl::StatusOr<std::unique_ptr<Device>> {
    const auto api = cuda::RuntimeApi();
    if (!api.ok()) return api.status();
    auto device =
        CudaDevice::Create(*api, {.memory_bytes = memory_bytes,
                                  .kernels = table,
                                  .describe_fault = table->describe_fault});
    if (!device.ok()) return device.status();
    return std::unique_ptr<Device>(*std::move(device));
  };
  return c;
}

int MostRanksOnTestMachine() { return 1; }

int64_t PlacementsOnTestMachine() { return 240; }

}  // namespace castor::testing
