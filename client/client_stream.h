// The stream of a GPU on which a client queues its operators, and the memory
// that the client hands out there.
//
// The stream is the device's compute stream. What the client has queued there
// until now is over at a mark (Mark). While a use lasts, its chunks are held
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
  // All outlive it.
  ClientStream(ClientOptions::Gpu gpu, bool scribble_freed, Device* device,
               Arena* arena, ChunkStore* store);

  // The observer's tag of what is queued from now on.
  void set_tag(int64_t tag) { tag_ = tag; }

  // What the client has queued until now is over.
  Fence Mark();
  // A use begins, of `chunks`, which stay where they are until it ends. The
  // client will want `top_bytes` of the memory's end, if that is known.
  // Otherwise the holes between the arena's blocks are closed, so that its top
  // can grow as far as there is room.
  void HoldUse(const std::vector<ChunkId>& chunks,
               std::optional<int64_t> top_bytes);
  // The client has queued all that uses the addresses that it was given: the
  // arena may do with these chunks as it likes, and has back what the heap does
  // not need. The fence is Mark's.
  Fence LeaveUse();
  // What the client has queued is over when it is copied.
  Fence CopyFrom(const void* from, absl::Span<std::byte> to);

  int64_t extent_bytes() const { return heap_.extent_bytes(); }
  bool has_blocks() const { return !heap_.empty(); }

  // A block of `bytes`, a multiple of kBlockAlignment, would reach that far
  // from the end of the memory.
  int64_t FindFit(int64_t bytes) const { return heap_.FindFit(bytes); }
  // It, for work on `user`. ResourceExhausted, Unavailable: Arena::GrowTop's;
  // nothing has changed then.
  absl::Status Take(int64_t reach, int64_t bytes, void* user);
  // Whoever had the bytes before had them on the run's stream, or that one
  // waits for them: `user` starts behind it.
  absl::Status LetBegin(void* user) { return gpu_.order(gpu_.stream, user); }
  void* AddressOf(int64_t reach) const { return end() - reach; }
  // The address is of a block that was taken. The status is of streams that the
  // run's waits for; the block is free in any case.
  absl::Status Free(void* address);
  // Null: there is none at that address.
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
