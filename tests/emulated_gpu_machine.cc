#include <functional>
#include <memory>
#include <utility>

#include "device/cuda/cuda_device.h"
#include "device/cuda/fake_api.h"
#include "kernels/cuda/emulated_block.h"
#include "kernels/cuda/kernels.h"
#include "tests/test_machine.h"

namespace castor::testing {
namespace {

cuda::FakeApi* Gpu() {
  static cuda::FakeApi* const gpu = [] {
    kernels::cuda::CurrentEmulatedQueue() = [](void* stream,
                                               std::function<void()> work) {
      cuda::FakeApi::Launch(stream, std::move(work));
    };
    return new cuda::FakeApi({.jitter_ns = 100'000});
  }();
  return gpu;
}

}  // namespace

std::string WhyNoTestMachine() { return ""; }

TrainingCase OnTestMachine(TrainingCase c) {
  const kernels::GpuKernels* table = kernels::cuda::Kernels();
  c.options.gpu_kernels = table;
  c.options.open_device =
      [table](int64_t memory_bytes) -> absl::StatusOr<std::unique_ptr<Device>> {
    auto device =
        CudaDevice::Create(Gpu(), {.memory_bytes = memory_bytes,
                                   .kernels = table,
                                   .describe_fault = table->describe_fault});
    if (!device.ok()) return device.status();
    return std::unique_ptr<Device>(*std::move(device));
  };
  return c;
}

int MostRanksOnTestMachine() { return 1; }

int64_t PlacementsOnTestMachine() { return 192; }

}  // namespace castor::testing
