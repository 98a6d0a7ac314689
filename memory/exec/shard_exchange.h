// What one rank's chunks have to do with the other ranks': gathers of
// parameters, ordered sums of gradients, and the host memory through which
// payloads with gradients go (memory/plan/shard_staging.h).
//
// Rank r of N owns the r-th of N equal shards of every chunk. Every rank must
// call Gather and Reduce for the same chunks in the same order, as the same
// plan makes it do; each carries chunk, moment and operator in its key, so that
// ranks which do not, and one that hangs, are told by them.
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
#include "memory/plan/chunk_layout.h"
#include "memory/plan/shard_staging.h"
#include "tracer/step_trace.h"
#include "tracer/work_tag.h"

namespace castor {

class ShardExchange {
 public:
  // All pointers outlive the exchange. ResourceExhausted: no room for staging.
  // Without parts_bytes no Reduce may be on the device.
  static absl::StatusOr<std::unique_ptr<ShardExchange>> Create(
      Device* device, Arena* arena, HostMemory* host, Communicator* ranks,
      const ChunkLayout* layout, const ShardStaging& staging);

  // So many slots at least. Blocks for nothing. ResourceExhausted: no room;
  // what was made stays until KeepSlots.
  absl::Status EnsureSlots(int64_t slots);
  // Gives back all but the first `slots`; nobody has used those.
  void KeepSlots(int64_t slots);

  // From now on the moments of tags are those of `step`, whose operators
  // messages name. It outlives the exchange.
  void BeginStep(const StepTrace* step) { step_ = step; }

  // A slot is a block of host memory. It is the taker's until it is given back;
  // whoever writes to it waits for `used` first, and notes all of its work.
  struct Slot {
    HostBlock block;
    Fence used;
    bool taken = false;
  };
  int TakeSlot();
  void GiveSlot(int slot) { slots_[slot].taken = false; }
  Slot& slot(int slot) { return slots_[slot]; }

  // The own shard in `block`, a whole payload, is joined by all others.
  absl::Status Gather(ChunkId chunk, BlockId block, WorkTag tag);

  // sum [shard] (+)= the sum over ranks, in their order, of what they have for
  // this rank's shard in their payloads, which lie in a slot or on the device.
  // What comes from a slot is added on kHostCompute, what is on the device on
  // kNetwork: operators do not wait for parts that are still on their way, and
  // one block is enough for all parts, since the next ones come when these are
  // added. The caller has that stream wait for the sum's other users; the fence
  // returned is the sum's.
  absl::StatusOr<Fence> ReduceFromSlot(ChunkId chunk, int slot, float* sum,
                                       bool assign, WorkTag tag);
  absl::StatusOr<Fence> ReduceFromBlock(ChunkId chunk, BlockId block,
                                        float* sum, bool assign, WorkTag tag);

  // Since creation, from other ranks.
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

  // A name that a person can read, equal on all ranks.
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
