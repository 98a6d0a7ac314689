// A run's options: the memory that it may use, the device that it opens and the
// ranks that it is one of.
#ifndef CASTOR_RUN_OPTIONS_H_
#define CASTOR_RUN_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "device/comm/communicator.h"
#include "device/device.h"
#include "memory/plan/plan.h"
#include "memory/plan/policy/policies.h"

namespace castor {

struct MemoryOptions {
  const PlacementPolicy* policy = DefaultPolicy();
  int64_t device_bytes = kUnlimitedBytes;
  // Training's budget of the device then becomes what others leave free of its
  // memory, but for what is always left free (program/memory_follower.h), no
  // less than the floor; device_bytes is what it begins with.
  bool follows_device = false;
  int64_t device_floor_bytes = 0;
  int64_t host_bytes = kUnlimitedBytes;
  // At most; the pool takes what homes and the slots of shards need.
  int64_t pinned_bytes = kUnlimitedBytes;
  // The bytes that a rank may take of its machine's memory, where others share
  // it. 0: all of it.
  int64_t machine_share_bytes = 0;
  // A GPU's device memory is its own; an emulated device's is the machine's.
  bool device_has_own_memory = false;
  int64_t chunk_bytes = 0;  // 0: searched
  double gpu_margin_mem_ratio = 1.0;
  int64_t warmup_steps = 1;
  bool prefetch = true;
};

// A rank's place in a training on several: N ranks train one model, of which
// each holds 1/N of every chunk. They must be given the same model and the same
// options but for `rank`, or they fail when they start.
struct RankOptions {
  int rank = 0;
  int world_size = 1;
  // Joins the group, once, on the run's device. Null on one rank, and where no
  // device is opened.
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(Device*)> join =
      {};
};

// A host device with these threads and this bus, or what `open` opens.
struct DeviceOptions {
  int threads = 1;
  double bus_bytes_per_s = 0;  // 0: unlimited
  // Called once, when the run is admitted, with the arena's size.
  std::function<absl::StatusOr<std::unique_ptr<Device>>(int64_t memory_bytes)>
      open = {};
  // Fill freed device memory with NaN, so that a use after free shows: tests.
  bool scribble_freed = false;
  // Told of the device's work, and of the ranks' collectives. May be null;
  // outlive the run.
  DeviceObserver* observer = nullptr;
  CommunicatorObserver* rank_observer = nullptr;
};

}  // namespace castor

#endif  // CASTOR_RUN_OPTIONS_H_
