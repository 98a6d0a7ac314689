#include "client/client_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace castor {

ClientStream::ClientStream(ClientOptions::Gpu gpu, bool scribble_freed,
                           Device* device, Arena* arena, ChunkStore* store)
    : gpu_(std::move(gpu)),
      scribble_freed_(scribble_freed),
      device_(device),
      arena_(arena),
      store_(store) {}

Fence ClientStream::Mark() {
  return device_->Enqueue(StreamId::kCompute, tag_,
                          [](const ExecContext&) { return absl::OkStatus(); });
}

void ClientStream::HoldUse(const std::vector<ChunkId>& chunks,
                           std::optional<int64_t> top_bytes) {
  if (!top_bytes.has_value()) arena_->MoveDown();
  // All at once: nothing has to move while the use lasts.
  const int64_t top = std::max(top_bytes.value_or(0), heap_.extent_bytes());
  if (top > arena_->top_bytes()) {
    const auto ready = arena_->GrowTop(top);
    // If there is no room, the client may still not want it.
    if (ready.ok()) device_->Wait(StreamId::kCompute, *ready, tag_);
  }
  for (const ChunkId chunk : chunks) {
    if (std::find(held_.begin(), held_.end(), chunk) != held_.end()) continue;
    store_->Hold(chunk);
    held_.push_back(chunk);
  }
}

Fence ClientStream::LeaveUse() {
  const Fence over = Mark();
  for (const ChunkId id : held_) {
    store_->LetGo(id);
    store_->NotePayloadUse(id, over, /*writes=*/false);
  }
  held_.clear();
  arena_->ShrinkTop(heap_.extent_bytes(), over);
  return over;
}

Fence ClientStream::CopyFrom(const void* from, absl::Span<std::byte> to) {
  device_->Wait(StreamId::kDeviceToHost, Mark(), tag_);
  return device_->Copy(StreamId::kDeviceToHost, tag_, to.data(), from,
                       static_cast<int64_t>(to.size()));
}

absl::Status ClientStream::Take(int64_t reach, int64_t bytes, void* user) {
  if (reach > arena_->top_bytes()) {
    CASTOR_ASSIGN_OR_RETURN(const Fence ready, arena_->GrowTop(reach));
    device_->Wait(StreamId::kCompute, ready, tag_);
  }
  heap_.Take(reach, {.bytes = bytes, .users = {user}});
  return absl::OkStatus();
}

absl::Status ClientStream::Free(void* address) {
  const int64_t reach = ReachOf(address);
  ClientHeap::Block* const block = heap_.Find(reach);
  CASTOR_CHECK(block != nullptr);
  absl::Status ordered;
  for (void* const user : block->users) {
    ordered.Update(gpu_.order(user, gpu_.stream));
  }
  if (scribble_freed_) {
    device_->Fill(StreamId::kCompute, tag_, address, 0xFF, block->bytes);
  }
  heap_.Free(reach);
  return ordered;
}

}  // namespace castor
