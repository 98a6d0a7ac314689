// Holds the activations that a plan moves between the device and the host:
// those that blocks of the model keep from their forward to their backward.
// They are chunks of the step's trace (memory/plan/blocks/offloaded_blocks.h).
//
// Such a chunk has no block of its own. It consists of storages, its *pieces*,
// each of which has a block in the arena. A piece's storage keeps its id, which
// is that of the block it was made in; PlaceOf says where it is now. States of
// a chunk:
//
//   state      its pieces are                          left by
//   none       none                                    Offer
//   offered    in their blocks, counted as operators'  Fetch
//   there      in blocks of the chunk's                Drop, Used
//   away       in the home                             Fetch
//   used       in blocks of the chunk's, if it is      Drop
//              there no more: the operators'
//
// Fetch of an offered chunk makes the chunk; nothing moves. CopyBack copies a
// chunk that is there to its home, piece by piece, and Drop frees the blocks.
// Fetch of a chunk that is away allocates new blocks, in the order of the
// pieces, and copies the bytes into them. After Used, Drop makes the pieces
// operators' bytes again. Any other call is FailedPrecondition. A piece may be
// released at any time.
//
// Calls queue their work and return at once. Threads: one.
#ifndef CASTOR_MEMORY_EXEC_ACTIVATION_STORE_H_
#define CASTOR_MEMORY_EXEC_ACTIVATION_STORE_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "device/device.h"
#include "memory/exec/arena.h"
#include "memory/exec/host_memory.h"
#include "tracer/step_trace.h"
#include "tracer/work_tag.h"

namespace castor {

class ActivationStore {
 public:
  // All arguments outlive the store.
  ActivationStore(Device* device, Arena* arena, HostMemory* host)
      : device_(device), arena_(arena), host_(host) {}
  ActivationStore(const ActivationStore&) = delete;
  ActivationStore& operator=(const ActivationStore&) = delete;

  // Makes the chunks of `step` that hold activations the store's chunks for the
  // steps that follow, and forgets whatever a step before left behind. A step
  // that is not of training has none, and changes nothing.
  void BeginStep(const StepTrace& step);
  // Returns true if some chunk has a home of the wrong size, or none.
  bool NeedsHomes() const;
  // Frees the homes of the wrong size, after the work on them is over. Blocks.
  absl::Status DropHomes();
  // Calls DropHomes, then allocates the homes that are missing.
  // ResourceExhausted: the host's budget has no room.
  absl::Status MakeHomes();

  // Returns the chunk of that block of the model; invalid if it has none.
  ChunkId ChunkOfBlock(int64_t block) const;
  // Names the storages that make up the chunk from its next Fetch on. Internal:
  // their bytes do not add up to the chunk's.
  absl::Status Offer(ChunkId chunk, const std::vector<int64_t>& storages);
  // Returns the planned offset of the block that is allocated next.
  using NextPlace = absl::FunctionRef<int64_t()>;
  static int64_t Anywhere() { return Arena::kAnywhere; }
  absl::Status Fetch(ChunkId chunk, WorkTag tag,
                     NextPlace next_place = Anywhere);
  absl::Status CopyBack(ChunkId chunk, WorkTag tag);
  absl::Status Drop(ChunkId chunk);

  // Returns the fence that the compute stream must wait for before it reads the
  // pieces, which must be there.
  absl::StatusOr<Fence> WaitToUse(ChunkId chunk) const;
  // Says that the next operator is the first one that reads the chunk.
  absl::Status Used(ChunkId chunk);

  // Returns the block of any storage; invalid while it is away.
  BlockId PlaceOf(int64_t storage) const;
  int64_t BytesOf(int64_t storage) const;
  // Frees the storage's block, if it has one: the last handle of it is gone.
  void Release(int64_t storage);
  // The bytes of pieces that count as the chunks', on the device or away.
  int64_t taken_bytes() const { return taken_bytes_; }

  // Bytes copied since creation.
  int64_t h2d_bytes() const { return h2d_bytes_; }
  int64_t d2h_bytes() const { return d2h_bytes_; }

 private:
  enum class State : uint8_t { kNone, kOffered, kThere, kAway, kUsed };
  struct Piece {
    int64_t storage = 0;
    int64_t offset = 0;  // in the home
  };
  struct Chunk {
    int64_t block = 0;  // of the model
    int64_t bytes = 0;
    State state = State::kNone;
    bool dirty = false;
    std::vector<Piece> pieces;
    HostBlock home;
    Fence home_written;  // by the latest copy back
    Fence home_used;     // after all work on it
  };
  // Says where a storage is that is or was a piece.
  struct Place {
    BlockId block;  // invalid: away
    int64_t bytes = 0;
    int64_t chunk = -1;  // the chunk that has it now; -1: the operators
  };

  Chunk& at(ChunkId chunk) { return chunks_[chunk.value - first_]; }
  const Chunk& at(ChunkId chunk) const { return chunks_[chunk.value - first_]; }
  // Returns null if the piece was released, or is not the chunk's.
  Place* Find(const Piece& piece, ChunkId chunk);
  absl::Status Illegal(ChunkId chunk, absl::string_view what) const;

  Device* const device_;
  Arena* const arena_;
  HostMemory* const host_;
  int64_t first_ = 0;  // id of the first chunk
  std::vector<Chunk> chunks_;
  std::unordered_map<int64_t, Place> places_;  // by storage
  int64_t taken_bytes_ = 0;
  int64_t h2d_bytes_ = 0;
  int64_t d2h_bytes_ = 0;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_EXEC_ACTIVATION_STORE_H_
