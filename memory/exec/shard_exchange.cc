#include "memory/exec/shard_exchange.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace castor {
namespace {

// The exchange of a reduce's parts has a tag of its own; the sum keeps the
// reduce's.
int64_t OnNetwork(WorkTag reduce) {
  reduce.kind = WorkKind::kExchange;
  return reduce.Pack();
}

}  // namespace

std::string ShardExchange::Key(absl::string_view what, ChunkId chunk,
                               WorkTag tag) const {
  std::string key =
      absl::StrCat(what, " chunk ", chunk.value, ", moment ", tag.moment);
  if (step_ != nullptr && tag.moment >= 0 &&
      tag.moment < static_cast<int64_t>(step_->ops.size())) {
    absl::StrAppend(&key, " (", step_->ops[tag.moment].name, ")");
  }
  return key;
}

absl::StatusOr<std::unique_ptr<ShardExchange>> ShardExchange::Create(
    Device* device, Arena* arena, HostMemory* host, Communicator* ranks,
    const ChunkLayout* layout, const ShardStaging& staging) {
  CASTOR_CHECK(ranks->world_size() == layout->world_size &&
               ranks->rank() == layout->rank);
  std::unique_ptr<ShardExchange> exchange(new ShardExchange(
      device, arena, host, ranks, layout, staging.slot_bytes));
  CASTOR_RETURN_IF_ERROR(exchange->EnsureSlots(staging.slots));
  if (staging.parts_bytes > 0) {
    CASTOR_ASSIGN_OR_RETURN(
        exchange->parts_,
        arena->Allocate(staging.parts_bytes, Category::kStaging, End::kLow,
                        "other ranks' parts"));
  }
  return exchange;
}

absl::Status ShardExchange::EnsureSlots(int64_t slots) {
  while (static_cast<int64_t>(slots_.size()) < slots) {
    CASTOR_ASSIGN_OR_RETURN(HostBlock block,
                            host_->Allocate(slot_bytes_, Category::kStaging,
                                            "payloads with gradients"));
    slots_.push_back({.block = std::move(block), .used = {}});
  }
  return absl::OkStatus();
}

void ShardExchange::KeepSlots(int64_t slots) {
  while (static_cast<int64_t>(slots_.size()) > slots) slots_.pop_back();
}

int ShardExchange::TakeSlot() {
  // Take a slot whose use is over, or else the one that was used first.
  int best = -1;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].taken) continue;
    const int at = static_cast<int>(i);
    if (device_->Reached(slots_[i].used)) {
      best = at;
      break;
    }
    if (best < 0 || slots_[i].used.count(StreamId::kNetwork) <
                        slots_[best].used.count(StreamId::kNetwork)) {
      best = at;
    }
  }
  CASTOR_CHECK(best >= 0);  // the staging was planned
  slots_[best].taken = true;
  return best;
}

absl::Status ShardExchange::Gather(ChunkId chunk, BlockId block, WorkTag tag) {
  tag.kind = WorkKind::kGather;
  const int64_t bytes = layout_->shard_bytes(chunk);
  device_->Wait(StreamId::kNetwork, arena_->WaitToWrite(block), tag.Pack());
  std::byte* const all = static_cast<std::byte*>(arena_->Pointer(block));
  CASTOR_ASSIGN_OR_RETURN(
      const Fence done,
      ranks_->AllGather(Key("gather", chunk, tag), tag.Pack(),
                        all + layout_->rank * bytes, all, bytes));
  arena_->NoteWrite(block, done);
  received_bytes_ += OthersBytes(chunk);
  return absl::OkStatus();
}

absl::StatusOr<Fence> ShardExchange::ReduceFromSlot(ChunkId chunk, int slot,
                                                    float* sum, bool assign,
                                                    WorkTag tag) {
  const int parts = TakeSlot();
  Fence ready = slots_[slot].used;
  ready.Add(slots_[parts].used);
  device_->Wait(StreamId::kNetwork, ready, OnNetwork(tag));
  CASTOR_ASSIGN_OR_RETURN(
      const Fence done,
      ranks_->ReduceScatter(Key("reduce", chunk, tag), OnNetwork(tag),
                            layout_->dtype, slots_[slot].block.data(),
                            slots_[parts].block.data(), sum,
                            layout_->shard_elements(chunk), assign,
                            StreamId::kHostCompute, tag.Pack()));
  slots_[slot].used.Add(done);
  slots_[parts].used.Add(done);
  GiveSlot(parts);
  received_bytes_ += OthersBytes(chunk);
  return done;
}

absl::StatusOr<Fence> ShardExchange::ReduceFromBlock(ChunkId chunk,
                                                     BlockId block, float* sum,
                                                     bool assign, WorkTag tag) {
  CASTOR_CHECK(parts_.valid());
  Fence ready = arena_->WaitToRead(block);
  ready.Add(arena_->WaitToWrite(parts_));
  device_->Wait(StreamId::kNetwork, ready, OnNetwork(tag));
  CASTOR_ASSIGN_OR_RETURN(
      const Fence done,
      ranks_->ReduceScatter(Key("reduce", chunk, tag), OnNetwork(tag),
                            layout_->dtype, arena_->Pointer(block),
                            arena_->Pointer(parts_), sum,
                            layout_->shard_elements(chunk), assign,
                            StreamId::kNetwork, tag.Pack()));
  arena_->NoteRead(block, done);
  arena_->NoteWrite(parts_, done);
  received_bytes_ += OthersBytes(chunk);
  return done;
}

}  // namespace castor
