#include "cli/machine/gpu.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "cli/machine/bandwidth.h"
#include "cli/machine/planned_machine.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/locality.h"
#include "device/cuda/runtime_api.h"
#include "device/machines/machines.h"
#include "run/gpu_kernels.h"

namespace castor::cli {
namespace {

constexpr int64_t kCopyBytes = int64_t{64} << 20;

struct FreeHost {
  void operator()(std::byte* memory) const { std::free(memory); }
};

absl::Status PrintBandwidths(CudaDevice& device) {
  const std::unique_ptr<std::byte, FreeHost> host(
      static_cast<std::byte*>(std::aligned_alloc(4096, 2 * kCopyBytes)));
  if (host == nullptr) {
    return absl::ResourceExhaustedError(
        "no host memory to measure copies with");
  }
  const auto print = [&](const char* what) -> absl::Status {
    CASTOR_ASSIGN_OR_RETURN(const BusBandwidth bus,
                            MeasureBandwidth(device, host.get(), kCopyBytes));
    std::printf("  %-11s %s\n", what, bus.ToString().c_str());
    return absl::OkStatus();
  };
  const absl::Status pinned =
      device.host_pinner()->PinHost(host.get(), 2 * kCopyBytes);
  if (pinned.ok()) {
    const absl::Status printed = print("pinned");
    device.host_pinner()->UnpinHost(host.get());
    CASTOR_RETURN_IF_ERROR(printed);
  } else {
    std::printf("  pinned      not here: %s\n",
                std::string(pinned.message()).c_str());
  }
  return print("pageable");
}

}  // namespace

void RunOn(const Gpu& gpu, DType dtype, TrainerOptions* options) {
  if (options->memory.device_bytes >= kUnlimitedBytes) {
    options->memory.device_bytes = gpu.memory.usable_bytes();
  }
  options->memory.device_has_own_memory = true;
  options->gpu_sizes = gpu.sizes;
  // What the warm-up is planned with; it measures. Several ranks must plan
  // alike, whatever GPUs they have.
  const Machines& machines = Machines::Known();
  const GpuSpec* known = options->ranks.world_size > 1
                             ? nullptr
                             : machines.GpuNamed(gpu.properties.name);
  const GpuSpec spec = known != nullptr ? *known : *machines.Gpu(kUsualGpu);
  const auto roofline = RooflineOf(spec, *machines.Host(kUsualHost), dtype);
  if (roofline.ok()) options->roofline = *roofline;
  if (options->bus_bytes_per_s == 0) options->bus = BusOf(spec);
  options->open_device = OpenerOf(gpu, options->threads);
}

std::string Describe(const Gpu& gpu) {
  return absl::StrCat(gpu.properties.name, ", device memory of up to ",
                      gpu.memory.ToString());
}

absl::Status PrintGpus() {
  const auto api = cuda::RuntimeApi();
  absl::StatusOr<int> count =
      api.ok() ? (*api)->CountDevices() : absl::StatusOr<int>(api.status());
  if (!count.ok()) {
    std::printf("cuda device\n  %s\n",
                std::string(count.status().message()).c_str());
    return absl::OkStatus();
  }
  const kernels::KernelTable* const kernels = GpuKernelsOfThisBuild();
  absl::Status (*const load)() = kernels == nullptr ? nullptr : kernels->load;
  for (int i = 0; i < *count; ++i) {
    CASTOR_ASSIGN_OR_RETURN(const cuda::GpuProperties gpu,
                            (*api)->Properties(i));
    CASTOR_ASSIGN_OR_RETURN(const cuda::GpuMemory memory,
                            cuda::MeasureMemory(*api, i, load));
    const int node = cuda::NumaNodeOf(gpu.pci_bus_id);
    std::printf(
        "cuda device %d\n  name        %s (compute capability %d.%d, %d "
        "multiprocessors, PCI %s%s)\n  driver      for CUDA %s; the runtime in "
        "this program is %s\n  memory      %s\n",
        i, gpu.name.c_str(), gpu.compute_capability / 10,
        gpu.compute_capability % 10, gpu.multiprocessors,
        gpu.pci_bus_id.c_str(),
        node < 0 ? "" : absl::StrCat(", NUMA node ", node).c_str(),
        gpu.driver_version.c_str(), gpu.runtime_version.c_str(),
        memory.ToString().c_str());
    CASTOR_ASSIGN_OR_RETURN(
        const std::unique_ptr<CudaDevice> device,
        CudaDevice::Create(*api,
                           {.ordinal = i, .memory_bytes = 2 * kCopyBytes}));
    CASTOR_RETURN_IF_ERROR(PrintBandwidths(*device));
  }
  return absl::OkStatus();
}

}  // namespace castor::cli
