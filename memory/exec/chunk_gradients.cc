// Moves a chunk's gradients from its payload, or from its gradient block, to a
// sum on the device or on the host.
#include <cstddef>
#include <utility>

#include "base/status_macros.h"
#include "memory/exec/chunk_store.h"
#include "memory/plan/layout/state_layout.h"

namespace castor {

absl::Status ChunkStore::AddToDeviceSum(ChunkId id, WorkTag tag, bool assign,
                                        SumWork work) {
  Chunk& chunk = at(id);
  const bool in_block = chunk.gradients.valid();
  if (!chunk.device_sum.valid() || chunk.sum_sent ||
      (in_block ? chunk.block_sent || chunk.block_added : !resident(id))) {
    return Illegal(id, "adding to the sum on the device");
  }
  const BlockId from = in_block ? chunk.gradients : chunk.block;
  auto* const sum = static_cast<float*>(arena_->Pointer(chunk.device_sum));
  const StreamId adds = sharded() ? StreamId::kNetwork : StreamId::kCompute;
  device_->Wait(adds, arena_->WaitToWrite(chunk.device_sum), tag.Pack());
  Fence done;
  if (sharded()) {
    CASTOR_ASSIGN_OR_RETURN(
        done, exchange_->ReduceFromBlock(id, from, sum, assign, tag));
  } else {
    device_->Wait(adds, arena_->WaitToRead(from), tag.Pack());
    done = device_->Enqueue(
        adds, tag.Pack(),
        [work = std::move(work), sum,
         gradients = static_cast<std::byte*>(arena_->Pointer(from))](
            const ExecContext& context) mutable {
          return work(gradients, sum, context);
        });
    arena_->NoteRead(from, done);
  }
  arena_->NoteWrite(chunk.device_sum, done);
  if (in_block) {
    chunk.block_added = true;
    return absl::OkStatus();
  }
  // The home still holds the parameters.
  GiveSlotBack(chunk);
  chunk.content = Content::kSpent;
  chunk.dirty = false;
  chunk.home_valid = true;
  return absl::OkStatus();
}

absl::Status ChunkStore::Reduce(ChunkId id, WorkTag tag, bool assign) {
  Chunk& chunk = at(id);
  if (chunk.side == Side::kDevice) return ReduceOnDevice(id, tag, assign);
  if ((chunk.content != Content::kLocal && !chunk.gradients_sent) ||
      (resident(id) && !chunk.gradients_sent) || chunk.slot < 0) {
    return Illegal(id, "reduce on the host");
  }
  device_->Wait(StreamId::kHostCompute, chunk.states_used, tag.Pack());
  CASTOR_ASSIGN_OR_RETURN(
      const Fence done,
      exchange_->ReduceFromSlot(id, chunk.slot,
                                ViewOf(id, chunk.host_states.data()).sum,
                                assign, tag));
  chunk.states_used.Add(done);
  // The home still holds the parameters.
  chunk.content = Content::kParameters;
  chunk.gradients_sent = false;
  GiveSlotBack(chunk);
  return absl::OkStatus();
}

absl::Status ChunkStore::ReduceOnDevice(ChunkId id, WorkTag tag, bool assign) {
  Chunk& chunk = at(id);
  const bool in_block = chunk.gradients.valid();
  if (in_block ? chunk.block_added
               : !resident(id) || chunk.content != Content::kLocal) {
    return Illegal(id, "reduce on the device");
  }
  device_->Wait(StreamId::kNetwork, WaitToUseOptimizer(id), tag.Pack());
  CASTOR_ASSIGN_OR_RETURN(
      const Fence done,
      exchange_->ReduceFromBlock(id, in_block ? chunk.gradients : chunk.block,
                                 optimizer_on_device(id).sum, assign, tag));
  NoteOptimizerUse(id, done);
  if (in_block) {
    chunk.block_added = true;
    return absl::OkStatus();
  }
  chunk.content = Content::kSpent;
  chunk.dirty = true;
  GiveSlotBack(chunk);
  return absl::OkStatus();
}

absl::Status ChunkStore::PutGradients(
    ChunkId id, absl::FunctionRef<void(std::byte* to)> fill) {
  Chunk& chunk = at(id);
  if (!sharded() || resident(id) || chunk.side != Side::kHost ||
      chunk.content != Content::kParameters || chunk.gradients_sent) {
    return Illegal(id, "gradients of a whole payload");
  }
  chunk.slot = exchange_->TakeSlot();
  ShardExchange::Slot& slot = exchange_->slot(chunk.slot);
  const absl::Status free = device_->Synchronize(slot.used);
  if (!free.ok()) return free;
  fill(slot.block.data());
  chunk.content = Content::kLocal;
  return absl::OkStatus();
}

absl::Status ChunkStore::MakeGradients(ChunkId id, int64_t at_offset) {
  Chunk& chunk = at(id);
  const bool on_device = chunk.side == Side::kDevice;
  if ((on_device ? !sharded() : chunk.dirty) || states_bytes(id) == 0 ||
      chunk.gradients.valid() || chunk.gradients_sent ||
      chunk.content != Content::kParameters) {
    return Illegal(id, "a gradient block");
  }
  CASTOR_ASSIGN_OR_RETURN(
      chunk.gradients,
      arena_->Allocate(layout_->payload_bytes(id), Category::kGradients,
                       End::kLow, ChunkName(id), at_offset));
  return absl::OkStatus();
}

absl::Status ChunkStore::SendGradients(ChunkId id, WorkTag tag) {
  Chunk& chunk = at(id);
  if (!chunk.gradients.valid() || chunk.block_sent || chunk.block_added ||
      chunk.device_sum.valid() || chunk.side == Side::kDevice) {
    return Illegal(id, "sending gradients");
  }
  if (sharded()) {
    CASTOR_RETURN_IF_ERROR(CopyToSlot(id, chunk.gradients, tag));
  } else {
    const int64_t bytes = layout_->payload_bytes(id);
    Fence ready = arena_->WaitToRead(chunk.gradients);
    ready.Add(chunk.home_used);
    device_->Wait(StreamId::kDeviceToHost, ready, tag.Pack());
    const Fence done =
        device_->Copy(StreamId::kDeviceToHost, tag.Pack(), chunk.home.data(),
                      arena_->Pointer(chunk.gradients), bytes);
    arena_->NoteRead(chunk.gradients, done);
    chunk.home_written = done;
    chunk.home_used.Add(done);
    d2h_bytes_ += bytes;
  }
  chunk.block_sent = chunk.gradients_sent = true;
  return absl::OkStatus();
}

absl::Status ChunkStore::DropGradients(ChunkId id) {
  Chunk& chunk = at(id);
  if (!chunk.block_sent && !chunk.block_added) {
    return Illegal(id, "dropping gradients");
  }
  arena_->Free(chunk.gradients);
  chunk.gradients = BlockId();
  chunk.block_sent = chunk.block_added = false;
  return absl::OkStatus();
}

absl::Status ChunkStore::MakeSum(ChunkId id, int64_t at_offset) {
  Chunk& chunk = at(id);
  if (chunk.side != Side::kHost || states_bytes(id) == 0 || !accumulate_ ||
      chunk.device_sum.valid() || chunk.gradients_sent) {
    return Illegal(id, "a sum on the device");
  }
  CASTOR_ASSIGN_OR_RETURN(
      chunk.device_sum,
      arena_->Allocate(layout_->shard_elements(id) * StateLayout::kSumBytes,
                       Category::kGradients, End::kLow, ChunkName(id),
                       at_offset));
  return absl::OkStatus();
}

absl::Status ChunkStore::SendSum(ChunkId id, WorkTag tag) {
  Chunk& chunk = at(id);
  if (!chunk.device_sum.valid() || chunk.sum_sent) {
    return Illegal(id, "sending the sum");
  }
  const int64_t bytes = layout_->shard_elements(id) * StateLayout::kSumBytes;
  Fence ready = arena_->WaitToRead(chunk.device_sum);
  ready.Add(chunk.states_used);
  device_->Wait(StreamId::kDeviceToHost, ready, tag.Pack());
  const Fence done = device_->Copy(StreamId::kDeviceToHost, tag.Pack(),
                                   ViewOf(id, chunk.host_states.data()).sum,
                                   arena_->Pointer(chunk.device_sum), bytes);
  arena_->NoteRead(chunk.device_sum, done);
  chunk.states_used.Add(done);
  d2h_bytes_ += bytes;
  chunk.sum_sent = true;
  return absl::OkStatus();
}

absl::Status ChunkStore::DropSum(ChunkId id) {
  Chunk& chunk = at(id);
  if (!chunk.sum_sent) return Illegal(id, "dropping the sum");
  arena_->Free(chunk.device_sum);
  chunk.device_sum = BlockId();
  chunk.sum_sent = false;
  return absl::OkStatus();
}

absl::Status ChunkStore::BringSumHome(ChunkId id, WorkTag tag) {
  const Chunk& chunk = at(id);
  if (!chunk.device_sum.valid()) return absl::OkStatus();
  if (!chunk.sum_sent) CASTOR_RETURN_IF_ERROR(SendSum(id, tag));
  return DropSum(id);
}

void ChunkStore::ForgetGradients(ChunkId id) {
  Chunk& chunk = at(id);
  if (chunk.gradients.valid()) arena_->Free(chunk.gradients);
  chunk.gradients = BlockId();
  chunk.block_sent = chunk.block_added = false;
  if (chunk.device_sum.valid()) arena_->Free(chunk.device_sum);
  chunk.device_sum = BlockId();
  chunk.sum_sent = false;
}

std::byte* ChunkStore::gradients(ChunkId id) const {
  const Chunk& chunk = at(id);
  return chunk.gradients.valid()
             ? static_cast<std::byte*>(arena_->Pointer(chunk.gradients))
             : payload(id);
}

void ChunkStore::AddGradientBytes(ChunkId id, int64_t bytes) {
  if (at(id).gradients.valid()) return;
  at(id).gradient_bytes += bytes;
  TellCategories(id);
}

}  // namespace castor
