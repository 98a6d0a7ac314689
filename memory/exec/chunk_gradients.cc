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
  const bool in_block = has_gradient_block(id);
  if (chunk.sum.state != Beside::kOpen ||
      (in_block ? chunk.gradients.state != Beside::kOpen : !resident(id))) {
    return Illegal(id, "adding to the sum on the device");
  }
  const BlockId from = in_block ? chunk.gradients.block : chunk.block;
  auto* const sum = static_cast<float*>(arena_->Pointer(chunk.sum.block));
  const StreamId adds = sharded() ? StreamId::kNetwork : StreamId::kCompute;
  device_->Wait(adds, arena_->WaitToWrite(chunk.sum.block), tag.Pack());
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
  arena_->NoteWrite(chunk.sum.block, done);
  if (in_block) {
    chunk.gradients.state = Beside::kAdded;
    return absl::OkStatus();
  }
  // The home still holds the parameters.
  GiveSlotBack(chunk);
  chunk.payload = Payload::kSpent;
  chunk.home_state = Home::kCurrent;
  return absl::OkStatus();
}

absl::Status ChunkStore::Reduce(ChunkId id, WorkTag tag, bool assign) {
  Chunk& chunk = at(id);
  if (chunk.side == Side::kDevice) return ReduceOnDevice(id, tag, assign);
  const bool in_slot = chunk.home_state == Home::kGradients ||
                       (!resident(id) && chunk.payload == Payload::kInSlot);
  if (!in_slot || chunk.slot < 0) return Illegal(id, "reduce on the host");
  device_->Wait(StreamId::kHostCompute, chunk.states_used, tag.Pack());
  CASTOR_ASSIGN_OR_RETURN(
      const Fence done,
      exchange_->ReduceFromSlot(id, chunk.slot,
                                ViewOf(id, chunk.host_states.data()).sum,
                                assign, tag));
  chunk.states_used.Add(done);
  // The home still holds the parameters.
  chunk.payload = Payload::kSaved;
  if (chunk.home_state == Home::kGradients) chunk.home_state = Home::kCurrent;
  GiveSlotBack(chunk);
  return absl::OkStatus();
}

absl::Status ChunkStore::ReduceOnDevice(ChunkId id, WorkTag tag, bool assign) {
  Chunk& chunk = at(id);
  const bool in_block = has_gradient_block(id);
  const bool in_payload = resident(id) && (chunk.payload == Payload::kLocal ||
                                           chunk.payload == Payload::kInSlot);
  if (in_block ? chunk.gradients.state != Beside::kOpen : !in_payload) {
    return Illegal(id, "reduce on the device");
  }
  device_->Wait(StreamId::kNetwork, WaitToUseOptimizer(id), tag.Pack());
  CASTOR_ASSIGN_OR_RETURN(
      const Fence done, exchange_->ReduceFromBlock(
                            id, in_block ? chunk.gradients.block : chunk.block,
                            optimizer_on_device(id).sum, assign, tag));
  NoteOptimizerUse(id, done);
  if (in_block) {
    chunk.gradients.state = Beside::kAdded;
    return absl::OkStatus();
  }
  chunk.payload = Payload::kReduced;
  GiveSlotBack(chunk);
  return absl::OkStatus();
}

absl::Status ChunkStore::PutGradients(
    ChunkId id, absl::FunctionRef<void(std::byte* to)> fill) {
  Chunk& chunk = at(id);
  if (!sharded() || resident(id) || chunk.side != Side::kHost ||
      chunk.payload != Payload::kSaved ||
      chunk.home_state == Home::kGradients) {
    return Illegal(id, "gradients of a whole payload");
  }
  chunk.slot = exchange_->TakeSlot();
  ShardExchange::Slot& slot = exchange_->slot(chunk.slot);
  const absl::Status free = device_->Synchronize(slot.used);
  if (!free.ok()) return free;
  fill(slot.block.data());
  chunk.payload = Payload::kInSlot;
  return absl::OkStatus();
}

absl::Status ChunkStore::MakeBeside(ChunkId id, int64_t bytes,
                                    int64_t at_offset, BlockBeside& beside) {
  CASTOR_ASSIGN_OR_RETURN(
      beside.block, arena_->Allocate(bytes, Category::kGradients, End::kLow,
                                     ChunkName(id), at_offset));
  beside.state = Beside::kOpen;
  return absl::OkStatus();
}

absl::Status ChunkStore::MakeGradients(ChunkId id, int64_t at_offset) {
  Chunk& chunk = at(id);
  const bool has_parameters =
      chunk.payload == Payload::kSaved ||
      (chunk.payload == Payload::kChanged && chunk.side == Side::kDevice);
  if (!has_parameters || (chunk.side == Side::kDevice && !sharded()) ||
      states_bytes(id) == 0 || has_gradient_block(id) ||
      chunk.home_state == Home::kGradients) {
    return Illegal(id, "a gradient block");
  }
  return MakeBeside(id, layout_->payload_bytes(id), at_offset, chunk.gradients);
}

absl::Status ChunkStore::SendGradients(ChunkId id, WorkTag tag) {
  Chunk& chunk = at(id);
  if (chunk.gradients.state != Beside::kOpen || has_device_sum(id) ||
      chunk.side == Side::kDevice) {
    return Illegal(id, "sending gradients");
  }
  if (sharded()) {
    CASTOR_RETURN_IF_ERROR(CopyToSlot(id, chunk.gradients.block, tag));
  } else {
    const int64_t bytes = layout_->payload_bytes(id);
    Fence ready = arena_->WaitToRead(chunk.gradients.block);
    ready.Add(chunk.home_used);
    device_->Wait(StreamId::kDeviceToHost, ready, tag.Pack());
    const Fence done =
        device_->Copy(StreamId::kDeviceToHost, tag.Pack(), chunk.home.data(),
                      arena_->Pointer(chunk.gradients.block), bytes);
    arena_->NoteRead(chunk.gradients.block, done);
    chunk.home_written = done;
    chunk.home_used.Add(done);
    d2h_bytes_ += bytes;
  }
  chunk.gradients.state = Beside::kSent;
  chunk.home_state = Home::kGradients;
  return absl::OkStatus();
}

absl::Status ChunkStore::DropGradients(ChunkId id) {
  BlockBeside& gradients = at(id).gradients;
  if (gradients.state != Beside::kSent && gradients.state != Beside::kAdded) {
    return Illegal(id, "dropping gradients");
  }
  DropBeside(gradients);
  return absl::OkStatus();
}

absl::Status ChunkStore::MakeSum(ChunkId id, int64_t at_offset) {
  Chunk& chunk = at(id);
  if (chunk.side != Side::kHost || states_bytes(id) == 0 || !accumulate_ ||
      has_device_sum(id) || chunk.home_state == Home::kGradients) {
    return Illegal(id, "a sum on the device");
  }
  return MakeBeside(id, layout_->shard_elements(id) * StateLayout::kSumBytes,
                    at_offset, chunk.sum);
}

absl::Status ChunkStore::SendSum(ChunkId id, WorkTag tag) {
  Chunk& chunk = at(id);
  if (chunk.sum.state != Beside::kOpen) return Illegal(id, "sending the sum");
  const int64_t bytes = layout_->shard_elements(id) * StateLayout::kSumBytes;
  Fence ready = arena_->WaitToRead(chunk.sum.block);
  ready.Add(chunk.states_used);
  device_->Wait(StreamId::kDeviceToHost, ready, tag.Pack());
  const Fence done = device_->Copy(StreamId::kDeviceToHost, tag.Pack(),
                                   ViewOf(id, chunk.host_states.data()).sum,
                                   arena_->Pointer(chunk.sum.block), bytes);
  arena_->NoteRead(chunk.sum.block, done);
  chunk.states_used.Add(done);
  d2h_bytes_ += bytes;
  chunk.sum.state = Beside::kSent;
  return absl::OkStatus();
}

absl::Status ChunkStore::DropSum(ChunkId id) {
  BlockBeside& sum = at(id).sum;
  if (sum.state != Beside::kSent) return Illegal(id, "dropping the sum");
  DropBeside(sum);
  return absl::OkStatus();
}

absl::Status ChunkStore::BringSumHome(ChunkId id, WorkTag tag) {
  if (at(id).sum.state == Beside::kOpen) {
    CASTOR_RETURN_IF_ERROR(SendSum(id, tag));
  }
  return has_device_sum(id) ? DropSum(id) : absl::OkStatus();
}

void ChunkStore::ForgetGradients(ChunkId id) {
  if (has_gradient_block(id)) DropBeside(at(id).gradients);
  if (has_device_sum(id)) DropBeside(at(id).sum);
}

std::byte* ChunkStore::gradients(ChunkId id) const {
  return has_gradient_block(id)
             ? static_cast<std::byte*>(arena_->Pointer(at(id).gradients.block))
             : payload(id);
}

void ChunkStore::AddGradientBytes(ChunkId id, int64_t bytes) {
  if (has_gradient_block(id)) return;
  at(id).gradient_bytes += bytes;
  TellCategories(id);
}

}  // namespace castor
