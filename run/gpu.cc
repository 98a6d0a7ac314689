#include "run/gpu.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/runtime_api.h"
#include "kernels/cuda/sizes.h"
#include "run/gpu_kernels.h"

namespace castor {

Gpu GpuElsewhere() {
  Gpu gpu;
  gpu.sizes = &kernels::cuda::kSizes;
  return gpu;
}

DeviceMemory MemoryOf(const cuda::GpuMemory& gpu, int64_t world_size) {
  const int64_t shared = world_size > 1 ? kNcclBytes : 0;
  return {
      .usable_bytes = std::max<int64_t>(0, gpu.usable_bytes() - shared),
      .room = {.free_bytes = gpu.free_bytes, .total_bytes = gpu.total_bytes}};
}

absl::StatusOr<int> GpuOfRank(cuda::Api& api, int local_rank) {
  CASTOR_ASSIGN_OR_RETURN(const int gpus, api.CountDevices());
  return local_rank % gpus;
}

absl::StatusOr<Gpu> FindGpu(int local_rank, int least_capability) {
  CASTOR_ASSIGN_OR_RETURN(cuda::Api* const api, cuda::RuntimeApi());
  CASTOR_ASSIGN_OR_RETURN(const int ordinal, GpuOfRank(*api, local_rank));
  Gpu gpu;
  gpu.kernels = GpuKernelsOfThisBuild();
  if (gpu.kernels == nullptr) {
    return absl::FailedPreconditionError(
        "this program was built without the GPU's kernels: build it where "
        "nvcc is (./run.sh --cuda)");
  }
  gpu.sizes = gpu.kernels;
  gpu.api = api;
  gpu.ordinal = ordinal;
  CASTOR_ASSIGN_OR_RETURN(gpu.properties, gpu.api->Properties(gpu.ordinal));
  CASTOR_RETURN_IF_ERROR(CheckCapability(gpu.properties.name,
                                         gpu.properties.compute_capability,
                                         least_capability));
  if (gpu.properties.compute_capability < OldestCapabilityOfThisBuild()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this program was built without code for the ", gpu.properties.name,
        ": build it with CASTOR_CUDA_ARCHS=", gpu.properties.compute_capability,
        ",80 in the environment"));
  }
  CASTOR_ASSIGN_OR_RETURN(
      gpu.memory, cuda::MeasureMemory(gpu.api, gpu.ordinal, gpu.kernels->load));
  return gpu;
}

absl::Status CheckCapability(absl::string_view name, int capability,
                             int least_capability) {
  if (capability >= least_capability) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the ", name, " has compute capability ", capability / 10,
                   ".", capability % 10, "; this needs ", least_capability / 10,
                   ".", least_capability % 10, " or later",
                   least_capability == kAllOperators
                       ? ", and Castor's engine for PyTorch 7.5"
                       : ""));
}

std::function<absl::StatusOr<std::unique_ptr<Device>>(int64_t memory_bytes)>
OpenerOf(const Gpu& gpu, int threads,
         std::optional<cuda::Api::Stream> compute_stream) {
  return [api = gpu.api, ordinal = gpu.ordinal, kernels = gpu.kernels, threads,
          compute_stream](
             int64_t memory_bytes) -> absl::StatusOr<std::unique_ptr<Device>> {
    CASTOR_ASSIGN_OR_RETURN(
        std::unique_ptr<CudaDevice> device,
        CudaDevice::Create(api, {.ordinal = ordinal,
                                 .memory_bytes = memory_bytes,
                                 .host_compute_threads = threads,
                                 .compute_stream = compute_stream,
                                 .kernels = kernels,
                                 .load_kernels = kernels->load,
                                 .describe_fault = kernels->describe_fault}));
    return device;
  };
}

std::function<absl::Status(cuda::Api::Stream earlier, cuda::Api::Stream later)>
OrdererOf(const Gpu& gpu) {
  return [api = gpu.api, ordinal = gpu.ordinal](
             cuda::Api::Stream earlier,
             cuda::Api::Stream later) -> absl::Status {
    if (earlier == later) return absl::OkStatus();
    CASTOR_RETURN_IF_ERROR(api->UseDevice(ordinal));
    CASTOR_ASSIGN_OR_RETURN(const cuda::Api::Event event, api->CreateEvent());
    absl::Status ordered = api->Record(event, earlier);
    ordered.Update(api->WaitFor(later, event));
    api->DestroyEvent(event);  // the GPU keeps it until it is over
    return ordered;
  };
}

}  // namespace castor
