// The managed memory of a run: a device with its budget, host memory, what
// ranks share, and in them the model's chunks with their optimizer.
//
// It is opened in three calls, in this order, since what a run knows it learns
// between them (its plan says on which sides optimizer states begin):
//   OpenDevice   device, host memory, arena
//   Join         the other ranks, and what crosses between them; on one rank
//                there is nothing of it
//   MakeChunks   chunks and optimizer
//
// Threads: one.
#ifndef CASTOR_RUN_MANAGED_MEMORY_H_
#define CASTOR_RUN_MANAGED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/settings.h"
#include "device/comm/communicator.h"
#include "device/device.h"
#include "memory/exec/arena.h"
#include "memory/exec/chunk_store.h"
#include "memory/exec/host_memory.h"
#include "memory/exec/shard_exchange.h"
#include "memory/plan/layout/chunk_layout.h"
#include "memory/plan/layout/shard_staging.h"
#include "memory/plan/plan.h"
#include "run/optim/chunk_optimizer.h"
#include "run/options.h"
#include "tracer/step_trace.h"

namespace castor {

// The bytes of all payloads' homes, which are what is pinned first.
int64_t HomeBytes(const ChunkLayout& layout);

// States on their way to the device pass through the host, a chunk at a time.
int64_t StateStagingBytes(const ChunkLayout& layout, bool accumulate);

// InvalidArgument: there is no such rank, or, of a run that `joins` the others,
// no way to do so.
absl::Status CheckRanks(const RankOptions& ranks, bool joins);

// A bus of this speed, or of the assumed one where it is 0 (unlimited).
BusModel BusOf(double bytes_per_s);

// Asks for a plan for `trace`, which outlives the request, with as much of this
// memory as it may use. Beside `staging` and the optimizer's own memory the
// host holds `host_bytes` all the time.
PlanRequest RequestFor(const StepTrace& trace, const MemoryOptions& memory,
                       const ChunkLayout& layout, const ShardStaging& staging,
                       int64_t host_bytes, const BusModel& bus);

class ManagedMemory {
 public:
  // `layout` outlives this. The arena has memory.device_bytes; `pinned_bytes`
  // is what would be pinned if memory.pinned_bytes were no limit.
  absl::Status OpenDevice(const DeviceOptions& device,
                          const MemoryOptions& memory,
                          const ChunkLayout* layout, int64_t pinned_bytes);
  // InvalidArgument on all ranks: `settings` are not the same on all of them.
  // Where they are, ranks that were started with different models have another
  // `start`, the key of what they meet in next, and are told.
  absl::Status Join(const RankOptions& ranks, absl::string_view start,
                    const Settings& settings, const ShardStaging& staging);
  // `sides` [ChunkId]: where optimizer states begin.
  absl::Status MakeChunks(bool accumulate, std::vector<Side> sides,
                          OptimizerOptions optimizer);

  // Null until they are opened; `ranks` and `exchange` on one rank, too.
  Device* device() const { return device_.get(); }
  HostMemory* host() const { return host_.get(); }
  Communicator* ranks() const { return ranks_.get(); }
  Arena* arena() const { return arena_.get(); }
  ShardExchange* exchange() const { return exchange_.get(); }
  ChunkStore* store() const { return store_.get(); }
  ChunkOptimizer* optimizer() const { return optimizer_.get(); }

 private:
  const ChunkLayout* layout_ = nullptr;
  CommunicatorObserver* rank_observer_ = nullptr;
  // Members are destroyed in the reverse of this order: the device outlives
  // what queues work on it.
  std::unique_ptr<Device> device_;
  std::unique_ptr<HostMemory> host_;  // which the device may have pinned
  std::unique_ptr<Communicator> ranks_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ShardExchange> exchange_;
  std::unique_ptr<ChunkStore> store_;
  std::unique_ptr<ChunkOptimizer> optimizer_;
};

}  // namespace castor

#endif  // CASTOR_RUN_MANAGED_MEMORY_H_
