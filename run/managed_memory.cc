#include "run/managed_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "device/comm/agreement.h"
#include "device/host/host_device.h"
#include "device/topology/memory_limits.h"
#include "run/option_settings.h"

namespace castor {

int64_t HomeBytes(const ChunkLayout& layout) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < layout.num_chunks(); ++i) {
    bytes += RoundUp(layout.shard_bytes(ChunkId(i)), 4096);
  }
  return bytes;
}

int64_t StateStagingBytes(const ChunkLayout& layout, bool accumulate) {
  int64_t most = 0;
  for (int64_t i = 0; i < layout.num_chunks(); ++i) {
    most = std::max(most, RoundUp(layout.state_bytes(ChunkId(i), accumulate),
                                  kBlockAlignment));
  }
  return most;
}

absl::Status CheckRanks(const RankOptions& ranks, bool joins) {
  if (ranks.world_size < 1 || ranks.rank < 0 ||
      ranks.rank >= ranks.world_size ||
      (ranks.world_size > 1 && !ranks.join && joins)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", ranks.rank, " of ", ranks.world_size,
        ": a rank counts from 0, and more than one need RankOptions::join"));
  }
  return absl::OkStatus();
}

BusModel BusOf(double bytes_per_s) {
  BusModel bus;
  if (bytes_per_s > 0) bus.h2d_bytes_per_s = bus.d2h_bytes_per_s = bytes_per_s;
  return bus;
}

PlanRequest RequestFor(const StepTrace& trace, const MemoryOptions& memory,
                       const ChunkLayout& layout, const ShardStaging& staging,
                       int64_t host_bytes, const BusModel& bus) {
  return {.trace = &trace,
          .device_budget_bytes = memory.device_bytes,
          .host_budget_bytes = memory.host_bytes,
          .device_reserved_bytes =
              ChunkOptimizer::DeviceBytes(layout) + staging.DeviceBytes(),
          .host_reserved_bytes = ChunkOptimizer::HostBytes(layout) +
                                 staging.HostBytes() + host_bytes,
          .bus = bus,
          .prefetch = memory.prefetch,
          .gpu_margin_mem_ratio = memory.gpu_margin_mem_ratio,
          .world_size = layout.world_size};
}

absl::Status ManagedMemory::OpenDevice(const DeviceOptions& device,
                                       const MemoryOptions& memory,
                                       const ChunkLayout* layout,
                                       int64_t pinned_bytes) {
  CASTOR_RETURN_IF_ERROR(CheckMachineMemory());
  layout_ = layout;
  rank_observer_ = device.rank_observer;
  if (device.open) {
    CASTOR_ASSIGN_OR_RETURN(device_, device.open(memory.device_bytes));
  } else {
    CASTOR_ASSIGN_OR_RETURN(
        device_,
        HostDevice::Create({.memory_bytes = memory.device_bytes,
                            .most_memory_bytes = PhysicalMemoryBytes(),
                            .compute_threads = device.threads,
                            .host_compute_threads = device.threads,
                            .bus_bytes_per_s = device.bus_bytes_per_s}));
  }
  device_->SetObserver(device.observer);
  CASTOR_ASSIGN_OR_RETURN(
      host_, HostMemory::Create(
                 {.budget_bytes = memory.host_bytes,
                  .pinned_bytes = std::min(memory.pinned_bytes, pinned_bytes),
                  .pinned_home_bytes = HomeBytes(*layout),
                  .pinner = device_->host_pinner()}));
  CASTOR_ASSIGN_OR_RETURN(
      arena_,
      Arena::Create(device_.get(), {.scribble_freed = device.scribble_freed}));
  return absl::OkStatus();
}

absl::Status ManagedMemory::Join(const RankOptions& ranks,
                                 absl::string_view start,
                                 const Settings& settings,
                                 const ShardStaging& staging) {
  if (ranks.world_size == 1) return absl::OkStatus();
  CASTOR_ASSIGN_OR_RETURN(ranks_, ranks.join(device_.get()));
  ranks_->SetObserver(rank_observer_);
  // Other settings make other operators, too: they are named before these are.
  CASTOR_RETURN_IF_ERROR(AgreeOnSettings(*ranks_, settings));
  CASTOR_RETURN_IF_ERROR(Await(*ranks_, ranks_->Barrier(start, 0)));
  CASTOR_ASSIGN_OR_RETURN(
      exchange_, ShardExchange::Create(device_.get(), arena_.get(), host_.get(),
                                       ranks_.get(), layout_, staging));
  return absl::OkStatus();
}

absl::Status ManagedMemory::MakeChunks(bool accumulate, std::vector<Side> sides,
                                       OptimizerOptions optimizer) {
  CASTOR_ASSIGN_OR_RETURN(
      store_,
      ChunkStore::Create(device_.get(), arena_.get(), host_.get(), layout_,
                         accumulate, std::move(sides), exchange_.get()));
  CASTOR_ASSIGN_OR_RETURN(
      optimizer_,
      ChunkOptimizer::Create(device_.get(), arena_.get(), host_.get(),
                             store_.get(), std::move(optimizer), ranks_.get()));
  return absl::OkStatus();
}

}  // namespace castor
