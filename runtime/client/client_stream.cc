// A client that queues its operators on a GPU's stream.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "runtime/client/client_run.h"

namespace castor {

Fence ClientRun::Mark() {
  if (!on_stream()) return Fence();
  return device_->Enqueue(StreamId::kCompute,
                          Tag(WorkKind::kOther, ChunkId()).Pack(),
                          [](const ExecContext&) { return absl::OkStatus(); });
}

Fence ClientRun::LeaveUse() {
  if (!on_stream()) return Fence();
  const Fence over = Mark();
  for (const ChunkId id : held_) {
    store_->LetGo(id);
    store_->NotePayloadUse(id, over, /*writes=*/false);
  }
  held_.clear();
  arena_->ShrinkTop(heap_.extent_bytes(), over);
  return over;
}

void ClientRun::HoldUse() {
  if (!on_stream()) return;
  int64_t top = heap_.extent_bytes();
  if (following()) {
    // All at once: nothing has to move while the use lasts.
    const auto index = static_cast<int64_t>(script_->uses().size()) - 1;
    top = std::max(top, program_->script.uses()[index].peak_bytes);
  } else {
    arena_->MoveDown();
  }
  if (top > arena_->top_bytes()) {
    const auto ready = arena_->GrowTop(top);
    // If there is no room, the client may still not want it.
    if (ready.ok()) {
      device_->Wait(StreamId::kCompute, *ready,
                    Tag(WorkKind::kOther, ChunkId()).Pack());
    }
  }
  for (const ParamId id : script_->last().parameters) {
    const ChunkId chunk = layout_.place(id).chunk;
    if (std::find(held_.begin(), held_.end(), chunk) != held_.end()) continue;
    store_->Hold(chunk);
    held_.push_back(chunk);
  }
}

absl::Status ClientRun::CopyFromClient(const void* from,
                                       absl::Span<std::byte> to) {
  const int64_t tag = Tag(WorkKind::kOther, ChunkId()).Pack();
  device_->Wait(StreamId::kDeviceToHost, Mark(), tag);
  return Await(device_->Copy(StreamId::kDeviceToHost, tag, to.data(), from,
                             static_cast<int64_t>(to.size())));
}

int64_t ClientRun::ReachOf(void* address) const {
  return device_->memory() + arena_->capacity_bytes() -
         static_cast<std::byte*>(address);
}

absl::StatusOr<void*> ClientRun::Allocate(int64_t bytes, void* stream) {
  const std::lock_guard lock(mutex_);
  if (!on_stream()) {
    return absl::FailedPreconditionError(
        "memory of a device is handed out on a GPU alone");
  }
  if (bytes < 0) return absl::InvalidArgumentError("a block of negative bytes");
  if (bytes == 0) return nullptr;
  // Nothing that is larger fits, and rounding it could overflow.
  const int64_t wanted =
      RoundUp(std::min(bytes, 2 * arena_->capacity_bytes()), kBlockAlignment);
  const int64_t reach = heap_.FindFit(wanted);
  const int64_t more = std::max<int64_t>(0, reach - heap_.extent_bytes());
  CASTOR_RETURN_IF_ERROR(TakeMemory(more, [&]() -> absl::Status {
    if (reach > arena_->top_bytes()) {
      CASTOR_ASSIGN_OR_RETURN(const Fence ready, arena_->GrowTop(reach));
      device_->Wait(StreamId::kCompute, ready,
                    Tag(WorkKind::kOther, ChunkId()).Pack());
    }
    heap_.Take(reach, {.bytes = wanted, .users = {stream}});
    return absl::OkStatus();
  }));
  // Whoever had the bytes before had them on the run's stream, or that one
  // waits for them.
  failure_.Update(options_.gpu->order(options_.gpu->stream, stream));
  CASTOR_RETURN_IF_ERROR(failure_);
  return device_->memory() + arena_->capacity_bytes() - reach;
}

void ClientRun::Free(void* address) {
  if (address == nullptr) return;
  const std::lock_guard lock(mutex_);
  const int64_t reach = ReachOf(address);
  ClientHeap::Block* const block = heap_.Find(reach);
  CASTOR_CHECK(block != nullptr);
  for (void* const stream : block->users) {
    failure_.Update(options_.gpu->order(stream, options_.gpu->stream));
  }
  if (options_.scribble_freed_memory) {
    device_->Fill(StreamId::kCompute, Tag(WorkKind::kOther, ChunkId()).Pack(),
                  address, 0xFF, block->bytes);
  }
  heap_.Free(reach);
}

void ClientRun::UseOn(void* address, void* stream) {
  const std::lock_guard lock(mutex_);
  ClientHeap::Block* const block = heap_.Find(ReachOf(address));
  if (block == nullptr) return;
  std::vector<void*>& users = block->users;
  if (std::find(users.begin(), users.end(), stream) == users.end()) {
    users.push_back(stream);
  }
}

bool ClientRun::IsBlock(void* address) {
  const std::lock_guard lock(mutex_);
  return heap_.Find(ReachOf(address)) != nullptr;
}

}  // namespace castor
