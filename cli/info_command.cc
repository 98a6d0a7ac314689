#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/placement.h"
#include "device/comm/launch_env.h"
#include "device/comm/rank_group.h"
#include "device/host/host_device.h"
#include "device/topology/memory_limits.h"
#include "device/topology/topology.h"

namespace castor::cli {
namespace {

constexpr int64_t kCopyBytes = int64_t{64} << 20;
constexpr int kRounds = 5;

// Bytes per second of copies on the streams given, at once; the best of
// kRounds, after one that is not counted.
absl::StatusOr<double> Bandwidth(Device& device, std::byte* host,
                                 const std::vector<StreamId>& streams) {
  double best = 0;
  for (int round = 0; round <= kRounds; ++round) {
    const int64_t start = device.NowNs();
    Fence done;
    for (size_t i = 0; i < streams.size(); ++i) {
      std::byte* const near = device.memory() + i * kCopyBytes;
      std::byte* const far = host + i * kCopyBytes;
      const bool in = streams[i] == StreamId::kHostToDevice;
      done.Add(device.Copy(streams[i], 0, in ? near : far, in ? far : near,
                           kCopyBytes));
    }
    CASTOR_RETURN_IF_ERROR(device.Synchronize(done));
    const double seconds = 1e-9 * static_cast<double>(device.NowNs() - start);
    if (round > 0) {
      best = std::max(best, static_cast<double>(kCopyBytes) *
                                static_cast<double>(streams.size()) / seconds);
    }
  }
  return best;
}

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

absl::Status PrintMachine() {
  std::printf("host device\n  processors  %d\n  memory      %s\n%s",
              AvailableProcessors(), FormatBytes(PhysicalMemoryBytes()).c_str(),
              TopologyLines().c_str());
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<HostDevice> device,
                          HostDevice::Create({.memory_bytes = 2 * kCopyBytes}));
  std::vector<std::byte> host(2 * kCopyBytes, std::byte{1});
  CASTOR_ASSIGN_OR_RETURN(
      const double in,
      Bandwidth(*device, host.data(), {StreamId::kHostToDevice}));
  CASTOR_ASSIGN_OR_RETURN(
      const double out,
      Bandwidth(*device, host.data(), {StreamId::kDeviceToHost}));
  CASTOR_ASSIGN_OR_RETURN(
      const double both,
      Bandwidth(*device, host.data(),
                {StreamId::kHostToDevice, StreamId::kDeviceToHost}));
  std::printf(
      "  bus         %.1f GB/s to the device, %.1f GB/s from it, %.1f GB/s in "
      "both directions at once\n",
      in * 1e-9, out * 1e-9, both * 1e-9);
  std::printf("cuda device\n  not in this build\n");
  return absl::OkStatus();
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

int Info() {
  const absl::StatusOr<LaunchEnv> launch = DetectLaunch(CurrentEnvironment());
  if (!launch.ok()) return Fail(launch.status());
  const absl::Status status =
      launch->world_size > 1 ? PrintRanks(*launch) : PrintMachine();
  if (status.ok()) return kSuccess;
  // One line, not one for each rank.
  return launch->rank == 0 ? Fail(status) : ExitCode(status);
}

}  // namespace castor::cli
