#include "cli/machine/planned_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/annotate.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "device/cuda/gpu.h"
#include "run/first_budget.h"
#include "run/gpu.h"

namespace castor::cli {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
// From a copy's issue to its first byte: what CUDA's own measurements of small
// copies come to.
constexpr int64_t kCopyLatencyNs = 10'000;

int64_t UsableBytes(const GpuSpec& gpu, int64_t ranks) {
  return MemoryOf(cuda::ExpectMemory(gpu.reported_bytes), ranks).usable_bytes;
}

std::string FormatGbps(double bytes_per_s) {
  return absl::StrFormat("%.3g GB/s", bytes_per_s / 1e9);
}

// The bus that a plan assumes: what the configuration says of copies, it says.
BusModel AssumedBus(const PlannedMachine& machine, const Config& config) {
  BusModel bus = BusOf(*machine.gpu, machine.host, machine.ranks,
                       static_cast<int>(config.world_size()));
  const double given = config.device.bus_gbps * 1e9;
  if (given > 0) bus.h2d_bytes_per_s = bus.d2h_bytes_per_s = given;
  return bus;
}

absl::Status Means(bool given, absl::string_view option,
                   absl::string_view why) {
  return given ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat(option, ": ", why));
}

}  // namespace

int MachineArguments::world_size() const {
  if (nodes == 0 && gpus_per_node == 0) return 0;
  const int64_t ranks =
      int64_t{1} * std::max(1, nodes) * std::max(1, gpus_per_node);
  return static_cast<int>(std::min<int64_t>(ranks, 1 << 30));
}

absl::StatusOr<Machines> MachinesOf(const MachineArguments& arguments) {
  Machines machines = Machines::Known();
  if (arguments.file.empty()) return machines;
  const auto text = ReadSmallFile(arguments.file, kMaxFileBytes);
  CASTOR_RETURN_IF_ERROR(Annotate("--machine", text.status()));
  CASTOR_RETURN_IF_ERROR(
      Annotate("--machine", machines.Add(*text, arguments.file)));
  return machines;
}

absl::StatusOr<std::optional<PlannedMachine>> FindMachine(
    const MachineArguments& arguments) {
  if (arguments.world_size() > 0) {
    CASTOR_RETURN_IF_ERROR(Means(!arguments.gpu.empty(),
                                 "--nodes, --gpus-per-node",
                                 "are machines with GPUs: give --gpu too"));
  }
  if (!arguments.file.empty()) {
    CASTOR_RETURN_IF_ERROR(
        Means(!arguments.gpu.empty() || !arguments.host.empty(), "--machine",
              "has rows that --gpu and --host name: give one of these too"));
  }
  if (arguments.gpu.empty() && arguments.ram.empty() &&
      arguments.host.empty()) {
    return std::nullopt;
  }
  CASTOR_ASSIGN_OR_RETURN(const Machines machines, MachinesOf(arguments));
  PlannedMachine machine;
  if (!arguments.ram.empty()) {
    const auto bytes = ParseBytes(arguments.ram);
    CASTOR_RETURN_IF_ERROR(Annotate("--ram", bytes.status()));
    if (*bytes <= 0 || *bytes >= kUnlimitedBytes) {
      return absl::InvalidArgumentError(
          "--ram: the memory of a machine is a size such as 64GiB");
    }
    machine.ram_bytes = *bytes;
  }
  if (!arguments.gpu.empty()) {
    const auto gpu = machines.Gpu(arguments.gpu);
    CASTOR_RETURN_IF_ERROR(Annotate("--gpu", gpu.status()));
    CASTOR_RETURN_IF_ERROR(Annotate(
        "--gpu",
        CheckCapability(gpu->name, gpu->compute_capability, kAllOperators)));
    machine.gpu = *gpu;
  }
  const auto host =
      machines.Host(arguments.host.empty() ? kUsualHost : arguments.host);
  CASTOR_RETURN_IF_ERROR(Annotate("--host", host.status()));
  machine.host = *host;
  if (arguments.gpu.empty() && !arguments.host.empty()) {
    CASTOR_RETURN_IF_ERROR(
        Means(host->emulates(), "--host",
              "says what stands beside the GPU of a plan: give --gpu too, or a "
              "row that castor info --measure printed"));
    machine.emulates = true;
  }
  machine.ranks = std::max(1, arguments.gpus_per_node);
  return machine;
}

namespace {

absl::Status NoProducts(DType dtype, absl::string_view name) {
  return absl::InvalidArgumentError(
      absl::StrCat("the table of machines has no rate of products in ",
                   DTypeName(dtype), " for the ", name));
}

// The speeds of the device that the host emulates.
absl::StatusOr<Roofline> RooflineOf(const HostSpec& host, DType dtype) {
  const TypeRates& type = dtype == DType::kFloat32   ? host.fp32
                          : dtype == DType::kFloat16 ? host.fp16
                                                     : host.bf16;
  if (type.flops_per_s == 0) return NoProducts(dtype, host.name);
  Roofline roofline = {.flops_per_s = type.flops_per_s,
                       .bytes_per_s = host.bytes_per_s,
                       .host_bytes_per_s = host.update_bytes_per_s,
                       .products = type.products,
                       .arrays = host.arrays};
  const auto set = [&](CostKind kind, double share) {
    roofline.share[static_cast<int>(kind)] = share;
  };
  set(CostKind::kAttention, type.attention_flops_per_s / type.flops_per_s);
  if (host.update_bytes_per_s > 0) {
    set(CostKind::kUpdate, host.update_bytes_per_s / host.bytes_per_s);
  }
  return roofline;
}

}  // namespace

absl::StatusOr<Roofline> RooflineOf(const GpuSpec& gpu, const HostSpec& host,
                                    int ranks, DType dtype) {
  Roofline roofline;
  roofline.flops_per_s = dtype == DType::kFloat32   ? gpu.fp32_flops_per_s
                         : dtype == DType::kFloat16 ? gpu.fp16_flops_per_s
                                                    : gpu.bf16_flops_per_s;
  if (roofline.flops_per_s == 0) return NoProducts(dtype, gpu.name);
  roofline.bytes_per_s = gpu.bytes_per_s;
  const Efficiency& reached = gpu.efficiency;
  roofline.host_bytes_per_s =
      (host.update_bytes_per_s > 0 ? host.update_bytes_per_s
                                   : host.bytes_per_s * reached.host) /
      ranks;
  const auto set = [&](CostKind kind, double share) {
    roofline.share[static_cast<int>(kind)] = share;
  };
  set(CostKind::kElements, reached.elements);
  set(CostKind::kProduct, reached.product);
  set(CostKind::kAttention, reached.attention);
  set(CostKind::kUpdate, reached.update);
  return roofline;
}

BusModel BusOf(const GpuSpec& gpu, const HostSpec& host, int ranks,
               int world_size) {
  const double copy = gpu.efficiency.copy;
  const double share = host.bytes_per_s / (2 * ranks);
  BusModel bus = {
      .h2d_bytes_per_s = std::min(gpu.h2d_bytes_per_s * copy, share),
      .d2h_bytes_per_s = std::min(gpu.d2h_bytes_per_s * copy, share),
      .latency_ns = kCopyLatencyNs};
  if (world_size == 1) return bus;
  const double others = world_size - 1;
  const double near = (ranks - 1) / others;
  const double far = (world_size - ranks) / others;
  bus.network_bytes_per_s =
      copy / std::max(near / gpu.link_bytes_per_s,
                      far * ranks / host.network_bytes_per_s);
  return bus;
}

absl::Status PutOn(const PlannedMachine& machine, Config* config) {
  MemoryConfig& memory = config->memory;
  if (machine.ram_bytes > 0) {
    if (memory.host_memory < kUnlimitedBytes &&
        memory.host_memory > machine.ram_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("memory.host_memory ", FormatBytes(memory.host_memory),
                       " is more than --ram ", FormatBytes(machine.ram_bytes)));
    }
    memory.host_memory = std::min(memory.host_memory, machine.ram_bytes);
  }
  for (int64_t* const bytes : {&memory.host_memory, &memory.pinned_memory}) {
    if (*bytes < kUnlimitedBytes) *bytes /= machine.ranks;
  }
  if (machine.emulates && config->device.type == DeviceType::kCuda) {
    return absl::InvalidArgumentError(
        "--host: device.type is \"cuda\", and this row is of a host that "
        "emulates a device: give --gpu too, or --set device.type=host");
  }
  if (!machine.gpu.has_value()) return absl::OkStatus();
  config->device.type = DeviceType::kCuda;
  // The GPU's own is known.
  config->device.memory = 0;
  config->device.memory_dir.clear();
  const cuda::GpuMemory expected =
      cuda::ExpectMemory(machine.gpu->reported_bytes);
  const DeviceMemory device = MemoryOf(expected, config->world_size());
  const int64_t usable = device.usable_bytes;
  if (memory.device_memory < kUnlimitedBytes && memory.device_memory > usable) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory.device_memory ", FormatBytes(memory.device_memory),
                     " is more than the ", machine.gpu->name, " has room for, ",
                     expected.ToString()));
  }
  if (memory.device_memory_floor > usable) {
    return absl::InvalidArgumentError(absl::StrCat(
        "memory.device_memory_floor ", FormatBytes(memory.device_memory_floor),
        " is more than the ", machine.gpu->name, " has room for, ",
        expected.ToString()));
  }
  memory.device_memory =
      FirstBudget(device, memory.device_memory, memory.follows_device);
  return absl::OkStatus();
}

absl::Status PlanFor(const PlannedMachine& machine, const Config& config,
                     TrainerOptions* options) {
  options->memory.machine_share_bytes = machine.ram_bytes / machine.ranks;
  if (machine.emulates) {
    CASTOR_ASSIGN_OR_RETURN(options->roofline,
                            RooflineOf(machine.host, config.dtype()));
    if (config.device.bus_gbps == 0) {
      BusModel bus;
      bus.h2d_bytes_per_s = machine.host.h2d_bytes_per_s;
      bus.d2h_bytes_per_s = machine.host.d2h_bytes_per_s;
      options->bus = bus;
    }
    return absl::OkStatus();
  }
  if (!machine.gpu.has_value()) return absl::OkStatus();
  options->memory.device_has_own_memory = true;
  options->gpu_sizes = GpuElsewhere().sizes;
  CASTOR_ASSIGN_OR_RETURN(
      options->roofline,
      RooflineOf(*machine.gpu, machine.host, machine.ranks, config.dtype()));
  options->bus = AssumedBus(machine, config);
  return absl::OkStatus();
}

std::string Describe(const PlannedMachine& machine, const Config& config) {
  std::string text;
  if (machine.gpu.has_value()) {
    const GpuSpec& gpu = *machine.gpu;
    const int64_t ranks = config.world_size();
    text = absl::StrCat(
        "machine: ", gpu.name, ", device memory of up to ",
        FormatBytes(UsableBytes(gpu, ranks)), " (of the ",
        FormatBytes(gpu.reported_bytes), " that CUDA reports, less ",
        FormatBytes(gpu.reported_bytes - UsableBytes(gpu, ranks)),
        " for its context and libraries)\n");
    const BusModel bus = AssumedBus(machine, config);
    absl::StrAppend(&text, "  copies ", FormatGbps(bus.h2d_bytes_per_s),
                    " to the device, ", FormatGbps(bus.d2h_bytes_per_s),
                    " from it",
                    config.device.bus_gbps > 0 ? " (device.bus_gbps)" : "",
                    "; host ", machine.host.key, ", ", machine.host.name);
  } else if (machine.emulates) {
    text = absl::StrCat(
        "machine: ", machine.host.name, ", which emulate a device (",
        machine.host.source, ")\n  copies ",
        config.device.bus_gbps > 0
            ? "as device.bus_gbps says"
            : absl::StrCat(
                  FormatGbps(machine.host.h2d_bytes_per_s), " to the device, ",
                  FormatGbps(machine.host.d2h_bytes_per_s), " from it"));
  } else {
    text = "machine: this one's processors";
  }
  if (machine.gpu.has_value() && config.world_size() > 1) {
    absl::StrAppend(
        &text, "\n  ", CeilDiv(config.world_size(), machine.ranks),
        " machines of ", machine.ranks,
        machine.ranks == 1 ? " rank" : " ranks, which share the host",
        "; a rank receives ",
        FormatGbps(AssumedBus(machine, config).network_bytes_per_s),
        " from the others");
  }
  if (machine.ram_bytes > 0) {
    absl::StrAppend(&text, ", ", FormatBytes(machine.ram_bytes), " of memory",
                    machine.ranks > 1 ? " each" : "", " (--ram)");
  }
  absl::StrAppend(&text, "\n");
  if (machine.gpu.has_value()) {
    const Efficiency& reached = machine.gpu->efficiency;
    absl::StrAppendFormat(
        &text,
        "  speeds: data sheets' peaks, of which products reach %.0f%%, "
        "attention %.0f%%, other operators %.0f%%, copies %.0f%%, updates on "
        "the host %.0f%% (%s)\n",
        100 * reached.product, 100 * reached.attention, 100 * reached.elements,
        100 * reached.copy, 100 * reached.host, reached.source);
  }
  return text;
}

}  // namespace castor::cli
