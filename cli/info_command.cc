#include <hwloc.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "cli/command.h"
#include "device/host/host_device.h"
#include "device/topology/memory_limits.h"

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

absl::Status PrintInfo() {
  std::printf("host device\n  processors  %d\n  memory      %s\n",
              AvailableProcessors(),
              FormatBytes(PhysicalMemoryBytes()).c_str());
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) == 0) {
    if (hwloc_topology_load(topology) == 0) {
      std::printf("  NUMA nodes  %d\n",
                  hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE));
    }
    hwloc_topology_destroy(topology);
  }
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

}  // namespace

int Info() {
  const absl::Status status = PrintInfo();
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
