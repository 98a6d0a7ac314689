#include "cli/info/info_command.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "cli/figures/figures.h"
#include "cli/machine/bandwidth.h"
#include "cli/machine/gpu.h"
#include "cli/machine/measured_rates.h"
#include "cli/machine/placement.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "device/comm/launch_env.h"
#include "device/comm/rank_group.h"
#include "device/host/host_device.h"
#include "device/topology/memory_limits.h"
#include "device/topology/topology.h"
#include "kernels/cpu/bf16_gemm.h"
#include "run/gpu.h"

namespace castor::cli {
namespace {

constexpr int64_t kCopyBytes = int64_t{64} << 20;

// Lines of what hwloc knows; none where it knows nothing.
std::string TopologyLines() {
  const absl::StatusOr<Topology> topology = Topology::OfThisMachine();
  if (!topology.ok()) return "";
  const absl::StatusOr<Place> place = topology->PlaceOf(topology->Binding());
  if (!place.ok()) return "";
  std::string text = absl::StrCat(
      "  machine     packages ", topology->packages(), ", cores ",
      topology->cores(), ", processors ", place->machine_processors,
      "; allowed ", place->allowed_processors, ", bound to ",
      FormatProcessors(place->processors()), "\n  NUMA nodes  ",
      place->nodes.size(), "\n");
  for (const PlaceNode& node : place->nodes) {
    ProcessorSet near;
    for (const PlaceCore& core : place->cores) {
      if (core.node != node.node) continue;
      near.insert(near.end(), core.processors.begin(), core.processors.end());
    }
    std::sort(near.begin(), near.end());
    absl::StrAppend(&text, "    node ", node.node, "    memory ",
                    FormatBytes(node.memory_bytes), ", own processors ",
                    near.empty() ? "none" : FormatProcessors(near), "\n");
  }
  return text;
}

absl::StatusOr<BusBandwidth> MeasureHostDevice() {
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<HostDevice> device,
                          HostDevice::Create({.memory_bytes = 2 * kCopyBytes}));
  std::vector<std::byte> host(2 * kCopyBytes, std::byte{1});
  return MeasureBandwidth(*device, host.data(), kCopyBytes);
}

absl::Status PrintMachine() {
  std::printf(
      "host device\n  processors  %d\n  memory      %s\n"
      "  products    fp32; bf16 %s; fp16 widened to fp32\n%s",
      AvailableProcessors(), FormatBytes(PhysicalMemoryBytes()).c_str(),
      kernels::cpu::HasBf16Gemm() ? "by the processor's own instructions"
                                  : "widened to fp32",
      TopologyLines().c_str());
  CASTOR_ASSIGN_OR_RETURN(const BusBandwidth bus, MeasureHostDevice());
  std::printf("  bus         %s\n", bus.ToString().c_str());
  CASTOR_ASSIGN_OR_RETURN(const FoundGpus gpus, FindGpus());
  std::fputs(Format(gpus).c_str(), stdout);
  return absl::OkStatus();
}

absl::Status PrintMachineJson() {
  CASTOR_ASSIGN_OR_RETURN(const BusBandwidth bus, MeasureHostDevice());
  CASTOR_ASSIGN_OR_RETURN(const FoundGpus gpus, FindGpus());
  nlohmann::json json = {{"processors", AvailableProcessors()},
                         {"memory_bytes", PhysicalMemoryBytes()},
                         {"bf16_products", kernels::cpu::HasBf16Gemm()},
                         {"copies", bus.ToJson()},
                         {"gpus", ToJson(gpus)}};
  if (!gpus.why_none.empty()) json["why_no_gpu"] = gpus.why_none;
  PrintJson(json);
  return absl::OkStatus();
}

// A name for the row of a host.
std::string HostName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!absl::StartsWith(line, "model name")) continue;
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(": ", 1));
    return absl::StrCat(parts.second, ", ", AvailableProcessors(),
                        " processors");
  }
  return absl::StrCat(AvailableProcessors(), " processors");
}

absl::Status PrintRows() {
  const int threads = AvailableProcessors();
  std::vector<std::byte> host(kRatesHostBytes);
  nlohmann::ordered_json rows;
  {
    CASTOR_ASSIGN_OR_RETURN(
        const std::unique_ptr<HostDevice> device,
        HostDevice::Create({.memory_bytes = RatesBytes(nullptr),
                            .compute_threads = threads,
                            .host_compute_threads = threads}));
    CASTOR_ASSIGN_OR_RETURN(const MeasuredRates rates,
                            MeasureRates(*device, host.data(), nullptr));
    rows["hosts"]["this"] = HostRow(rates, HostName());
  }
  const absl::StatusOr<Gpu> gpu = FindGpu(/*local_rank=*/0);
  if (gpu.ok()) {
    CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                            OpenerOf(*gpu, threads)(RatesBytes(gpu->sizes)));
    // Copies of a run are of pinned memory, where there is some.
    HostPinner* const pinner = device->host_pinner();
    const bool pinned =
        pinner != nullptr && pinner->PinHost(host.data(), kRatesHostBytes).ok();
    const absl::StatusOr<MeasuredRates> rates =
        MeasureRates(*device, host.data(), gpu->sizes);
    if (pinned) pinner->UnpinHost(host.data());
    CASTOR_RETURN_IF_ERROR(rates.status());
    rows["gpus"]["this"] = GpuRow(*rates, gpu->properties);
  } else {
    std::fprintf(stderr, "castor: no row of a GPU: %s\n",
                 std::string(gpu.status().message()).c_str());
  }
  std::printf("%s\n", rows.dump(2).c_str());
  return absl::OkStatus();
}

absl::Status RefuseRanks(absl::string_view option) {
  return absl::InvalidArgumentError(
      absl::StrCat(option,
                   " tells of one machine: leave out the launcher that started "
                   "several ranks"));
}

// Each rank tells its place; rank 0 prints the map of all.
absl::Status PrintRanks(const LaunchEnv& launch) {
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<RankGroup> group,
                          RankGroup::Join(launch, {}));
  CASTOR_ASSIGN_OR_RETURN(const Placement placement, FindPlacement(*group));
  if (group->rank() > 0) return absl::OkStatus();
  std::fputs(FormatPlacement(placement, LauncherName(launch.launcher),
                             launch.over_mpi ? "MPI" : "TCP")
                 .c_str(),
             stdout);
  return absl::OkStatus();
}

}  // namespace

int Info(const InfoArguments& arguments) {
  const absl::StatusOr<LaunchEnv> launch = DetectLaunch(CurrentEnvironment());
  if (!launch.ok()) return Fail(launch.status());
  const bool ranks = launch->world_size > 1;
  const absl::Status status =
      arguments.measure ? (ranks ? RefuseRanks("--measure") : PrintRows())
      : arguments.json  ? (ranks ? RefuseRanks("--json") : PrintMachineJson())
                        : (ranks ? PrintRanks(*launch) : PrintMachine());
  if (status.ok()) return kSuccess;
  // One line, not one for each rank.
  return launch->rank == 0 ? Fail(status) : ExitCode(status);
}

}  // namespace castor::cli
