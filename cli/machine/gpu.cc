#include "cli/machine/gpu.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/machine/bandwidth.h"
#include "cli/machine/planned_machine.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/locality.h"
#include "device/cuda/runtime_api.h"
#include "device/machines/machines.h"
#include "run/first_budget.h"
#include "run/gpu_kernels.h"

namespace castor::cli {
namespace {

constexpr int64_t kCopyBytes = int64_t{64} << 20;

struct FreeHost {
  void operator()(std::byte* memory) const { std::free(memory); }
};

absl::Status MeasureBus(CudaDevice& device, FoundGpu* gpu) {
  const std::unique_ptr<std::byte, FreeHost> host(
      static_cast<std::byte*>(std::aligned_alloc(4096, 2 * kCopyBytes)));
  if (host == nullptr) {
    return absl::ResourceExhaustedError(
        "no host memory to measure copies with");
  }
  const absl::Status pinned =
      device.host_pinner()->PinHost(host.get(), 2 * kCopyBytes);
  if (pinned.ok()) {
    gpu->pinned = MeasureBandwidth(device, host.get(), kCopyBytes);
    device.host_pinner()->UnpinHost(host.get());
    CASTOR_RETURN_IF_ERROR(gpu->pinned.status());
  } else {
    gpu->pinned = pinned;
  }
  CASTOR_ASSIGN_OR_RETURN(gpu->pageable,
                          MeasureBandwidth(device, host.get(), kCopyBytes));
  return absl::OkStatus();
}

}  // namespace

void RunOn(const Gpu& gpu, DType dtype, TrainerOptions* options) {
  MemoryOptions& memory = options->memory;
  memory.device_bytes =
      FirstBudget(MemoryOf(gpu.memory, options->ranks.world_size),
                  memory.device_bytes, memory.follows_device);
  memory.device_has_own_memory = true;
  options->gpu_sizes = gpu.sizes;
  // The warm-up is planned with these speeds; it measures the real ones.
  // Several ranks must plan alike, whatever GPUs they have.
  const Machines& machines = Machines::Known();
  const GpuSpec* known = options->ranks.world_size > 1
                             ? nullptr
                             : machines.GpuNamed(gpu.properties.name);
  const GpuSpec spec = known != nullptr ? *known : *machines.Gpu(kUsualGpu);
  const HostSpec host = *machines.Host(kUsualHost);
  const auto roofline = RooflineOf(spec, host, /*ranks=*/1, dtype);
  if (roofline.ok()) options->roofline = *roofline;
  if (options->bus_bytes_per_s == 0) options->bus = BusOf(spec, host, 1, 1);
  options->open_device = OpenerOf(gpu, options->threads);
}

std::string Describe(const Gpu& gpu) {
  return absl::StrCat(gpu.properties.name, ", device memory of up to ",
                      gpu.memory.ToString());
}

absl::StatusOr<FoundGpus> FindGpus() {
  FoundGpus found;
  const auto api = cuda::RuntimeApi();
  const absl::StatusOr<int> count =
      api.ok() ? (*api)->CountDevices() : absl::StatusOr<int>(api.status());
  if (!count.ok()) {
    found.why_none = std::string(count.status().message());
    return found;
  }
  const kernels::KernelTable* const kernels = GpuKernelsOfThisBuild();
  absl::Status (*const load)() = kernels == nullptr ? nullptr : kernels->load;
  for (int i = 0; i < *count; ++i) {
    FoundGpu& gpu = found.gpus.emplace_back();
    CASTOR_ASSIGN_OR_RETURN(gpu.properties, (*api)->Properties(i));
    CASTOR_ASSIGN_OR_RETURN(gpu.memory, cuda::MeasureMemory(*api, i, load));
    gpu.numa_node = cuda::NumaNodeOf(gpu.properties.pci_bus_id);
    CASTOR_ASSIGN_OR_RETURN(
        const std::unique_ptr<CudaDevice> device,
        CudaDevice::Create(*api,
                           {.ordinal = i, .memory_bytes = 2 * kCopyBytes}));
    CASTOR_RETURN_IF_ERROR(MeasureBus(*device, &gpu));
  }
  return found;
}

std::string Format(const FoundGpus& found) {
  if (!found.why_none.empty()) {
    return absl::StrCat("cuda device\n  ", found.why_none, "\n");
  }
  std::string text;
  for (size_t i = 0; i < found.gpus.size(); ++i) {
    const FoundGpu& gpu = found.gpus[i];
    const cuda::GpuProperties& is = gpu.properties;
    absl::StrAppend(
        &text, "cuda device ", i, "\n  name        ", is.name,
        " (compute capability ", is.compute_capability / 10, ".",
        is.compute_capability % 10, ", ", is.multiprocessors,
        " multiprocessors, PCI ", is.pci_bus_id,
        gpu.numa_node < 0 ? "" : absl::StrCat(", NUMA node ", gpu.numa_node),
        ")\n  driver      for CUDA ", is.driver_version,
        "; the runtime in this program is ", is.runtime_version,
        "\n  memory      ", gpu.memory.ToString(), "\n  pinned      ",
        gpu.pinned.ok()
            ? gpu.pinned->ToString()
            : absl::StrCat("not here: ", gpu.pinned.status().message()),
        "\n  pageable    ", gpu.pageable.ToString(), "\n");
  }
  return text;
}

nlohmann::json ToJson(const FoundGpus& found) {
  if (!found.why_none.empty()) return nullptr;
  nlohmann::json gpus = nlohmann::json::array();
  for (const FoundGpu& gpu : found.gpus) {
    gpus.push_back(
        {{"name", gpu.properties.name},
         {"compute_capability", gpu.properties.compute_capability / 10.0},
         {"multiprocessors", gpu.properties.multiprocessors},
         {"pci_bus_id", gpu.properties.pci_bus_id},
         {"numa_node",
          gpu.numa_node < 0 ? nlohmann::json() : nlohmann::json(gpu.numa_node)},
         {"total_bytes", gpu.memory.total_bytes},
         {"free_bytes", gpu.memory.free_bytes},
         {"usable_bytes", gpu.memory.usable_bytes()},
         {"pinned_copies",
          gpu.pinned.ok() ? gpu.pinned->ToJson() : nlohmann::json()},
         {"pageable_copies", gpu.pageable.ToJson()}});
  }
  return gpus;
}

}  // namespace castor::cli
