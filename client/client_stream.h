// The stream of a GPU on which a client queues its operators, and the memory
// that the client hands out there.
//
// The stream is the device's compute stream. A mark (Mark) is behind all that
// the client has queued there so far. While a use lasts, its chunks are held
// where they are, since the client knows their addresses; the client's blocks
// lie at the end of the arena (client_heap.h), in its top.
//
// Threads: one at a time.
#ifndef CASTOR_CLIENT_CLIENT_STREAM_H_
#define CASTOR_CLIENT_CLIENT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "client/client_heap.h"
#include "client/client_options.h"
#include "device/device.h"
#include "memory/exec/arena.h"
#include "memory/exec/chunk_store.h"

namespace castor {

class ClientStream {
 public:
  // All outlive this object.
  ClientStream(ClientOptions::Gpu gpu, bool scribble_freed, Device* device,
               Arena* arena, ChunkStore* store);

  // Sets the observer's tag for work that is queued from now on.
  void set_tag(int64_t tag) { tag_ = tag; }

  // Returns a fence behind all that the client has queued so far.
  Fence Mark();
  // Begins a use of `chunks`, which stay where they are until it ends. The
  // client will want `top_bytes` of the memory's end, if that is known.
  // Otherwise the holes between the arena's blocks are closed, so that its top
  // can grow as far as there is room.
  void HoldUse(const std::vector<ChunkId>& chunks,
               std::optional<int64_t> top_bytes);
  // Ends the use: the client has queued all that uses the addresses that it was
  // given. The arena may move these chunks as it likes, and gets back the bytes
  // that the heap does not need. Returns Mark's fence.
  Fence LeaveUse();
  // Copies from the device once the client's queued work is over.
  Fence CopyFrom(const void* from, absl::Span<std::byte> to);

  int64_t extent_bytes() const { return heap_.extent_bytes(); }
  bool has_blocks() const { return !heap_.empty(); }

  // Returns how far from the end of the memory a block of `bytes`, a multiple
  // of kBlockAlignment, would reach.
  int64_t FindFit(int64_t bytes) const { return heap_.FindFit(bytes); }
  // Takes such a block, for work on `user`. ResourceExhausted, Unavailable:
  // Arena::GrowTop's; nothing has changed then.
  absl::Status Take(int64_t reach, int64_t bytes, void* user);
  // Makes `user` start behind the run's stream. Earlier work on the bytes was
  // queued on that stream, or that stream waits for it.
  absl::Status LetBegin(void* user) { return gpu_.order(gpu_.stream, user); }
  void* AddressOf(int64_t reach) const { return end() - reach; }
  // Frees a block that was taken. The run's stream then waits for the block's
  // other streams; an error is of that. The block is free in any case.
  absl::Status Free(void* address);
  // Returns null if there is no block at that address.
  ClientHeap::Block* Find(void* address) {
    return heap_.Find(ReachOf(address));
  }

 private:
  std::byte* end() const {
    return device_->memory() + arena_->capacity_bytes();
  }
  int64_t ReachOf(void* address) const {
    return end() - static_cast<std::byte*>(address);
  }

  const ClientOptions::Gpu gpu_;
  const bool scribble_freed_;
  Device* const device_;
  Arena* const arena_;
  ChunkStore* const store_;
  int64_t tag_ = 0;
  ClientHeap heap_;
  std::vector<ChunkId> held_;
};

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_STREAM_H_
