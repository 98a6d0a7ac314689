// Exchanges chunks with the other ranks: gathers parameters, sums gradients in
// the order of ranks, and owns the host memory through which payloads with
// gradients go (memory/plan/layout/shard_staging.h).
//
// Rank r of N owns the r-th of N equal shards of every chunk. Every rank must
// call Gather and Reduce for the same chunks in the same order, as the same
// plan makes it do. Each call has chunk, moment and operator in its key, by
// which errors name ranks that differ and a rank that hangs.
//
// Methods queue their work and return at once. Threads: one.
#ifndef CASTOR_MEMORY_EXEC_SHARD_EXCHANGE_H_
#define CASTOR_MEMORY_EXEC_SHARD_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/comm/communicator.h"
#include "device/device.h"
#include "memory/exec/arena.h"
#include "memory/exec/host_memory.h"
#include "memory/plan/layout/chunk_layout.h"
#include "memory/plan/layout/shard_staging.h"
#include "tracer/step_trace.h"
#include "tracer/work_tag.h"

namespace castor {

class ShardExchange {
 public:
  // All pointers outlive the exchange. ResourceExhausted: no room for staging.
  // Without `staging.parts_bytes` ReduceFromBlock must not be called.
  static absl::StatusOr<std::unique_ptr<ShardExchange>> Create(
      Device* device, Arena* arena, HostMemory* host, Communicator* ranks,
      const ChunkLayout* layout, const ShardStaging& staging);

  // Makes slots until there are at least `slots`. Never blocks.
  // ResourceExhausted: no room; slots that were made stay until KeepSlots.
  absl::Status EnsureSlots(int64_t slots);
  // Frees all slots but the first `slots`; the freed ones were never used.
  void KeepSlots(int64_t slots);

  // Says that the moments of tags are those of `step` from now on, whose
  // operators messages name. It outlives the exchange.
  void BeginStep(const StepTrace* step) { step_ = step; }

  // A slot is a block of host memory that belongs to its taker until it is
  // given back. A writer waits for `used` first, and notes all of its work.
  struct Slot {
    HostBlock block;
    Fence used;
    bool taken = false;
  };
  int TakeSlot();
  void GiveSlot(int slot) { slots_[slot].taken = false; }
  Slot& slot(int slot) { return slots_[slot]; }

  // Completes `block`, a whole payload that holds this rank's shard, with the
  // shards of all other ranks.
  absl::Status Gather(ChunkId chunk, BlockId block, WorkTag tag);

  // sum [shard] (+)= the sum over ranks, in their order, of their gradients for
  // this rank's shard. The payloads with gradients lie in a slot or on the
  // device. Gradients from a slot are added on kHostCompute, those on the
  // device on kNetwork: so operators do not wait for parts on their way, and
  // one block is enough for the parts, since the next ones come when these are
  // added. The caller has that stream wait for the sum's other users; the fence
  // returned is that of the addition.
  absl::StatusOr<Fence> ReduceFromSlot(ChunkId chunk, int slot, float* sum,
                                       bool assign, WorkTag tag);
  absl::StatusOr<Fence> ReduceFromBlock(ChunkId chunk, BlockId block,
                                        float* sum, bool assign, WorkTag tag);

  // Bytes received from other ranks since creation.
  int64_t received_bytes() const { return received_bytes_; }

 private:
  ShardExchange(Device* device, Arena* arena, HostMemory* host,
                Communicator* ranks, const ChunkLayout* layout,
                int64_t slot_bytes)
      : device_(device),
        arena_(arena),
        host_(host),
        ranks_(ranks),
        layout_(layout),
        slot_bytes_(slot_bytes) {}

  int64_t OthersBytes(ChunkId chunk) const {
    return (layout_->world_size - 1) * layout_->shard_bytes(chunk);
  }

  // Returns the collective's key, readable, and equal on all ranks.
  std::string Key(absl::string_view what, ChunkId chunk, WorkTag tag) const;

  Device* const device_;
  Arena* const arena_;
  HostMemory* const host_;
  Communicator* const ranks_;
  const ChunkLayout* const layout_;
  const StepTrace* step_ = nullptr;
  const int64_t slot_bytes_;
  std::vector<Slot> slots_;
  BlockId parts_;  // on the device
  int64_t received_bytes_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_EXEC_SHARD_EXCHANGE_H_
