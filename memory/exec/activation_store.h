// Activations that a plan moves: what blocks of the model keep for their
// backward, as chunks of the step's trace (memory/plan/offloaded_blocks.h).
//
// Such a chunk is no block of its own but some storages, the *pieces*, each in
// a block of the arena. A piece's storage keeps its id, which is that of the
// block it was made in; where it is now PlaceOf says. States of a chunk:
//
//   state      its pieces are                          left by
//   none       none                                    Offer
//   offered    in their blocks, counted as operators'  Fetch
//   there      in blocks of the chunk's                Drop, Used
//   away       in the home                             Fetch
//   used       in blocks of the chunk's, if it is      Drop
//              there no more: the operators'
//
// Fetch of an offered chunk makes it: nothing moves. CopyBack copies what is
// there to the home, piece by piece, and Drop frees the blocks; Fetch of a
// chunk that is away allocates others, in the order of the pieces, and copies
// back. After Used Drop makes the pieces operators' bytes again. Any other call
// is FailedPrecondition. A piece may be released at any time.
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

  // The chunks of the steps that follow: those of `step` that hold activations.
  // A step that is not of training has none, and leaves all as it is. Whatever
  // a step before left behind is forgotten.
  void BeginStep(const StepTrace& step);
  // Whether homes of other sizes are needed than there are.
  bool NeedsHomes() const;
  // Gives back those that are not needed, and waits for work on them.
  absl::Status DropHomes();
  // Makes those that are, after DropHomes. ResourceExhausted: the host's
  // budget.
  absl::Status MakeHomes();

  // Chunk of that block; invalid if there is none.
  ChunkId ChunkOfBlock(int64_t block) const;
  // The storages that are the chunk from its next Fetch on. Internal: they are
  // not of the chunk's bytes.
  absl::Status Offer(ChunkId chunk, const std::vector<int64_t>& storages);
  // Gives the planned place of the block that is taken next.
  using NextPlace = absl::FunctionRef<int64_t()>;
  static int64_t Anywhere() { return Arena::kAnywhere; }
  absl::Status Fetch(ChunkId chunk, WorkTag tag,
                     NextPlace next_place = Anywhere);
  absl::Status CopyBack(ChunkId chunk, WorkTag tag);
  absl::Status Drop(ChunkId chunk);

  // Work on the compute stream that reads the pieces, which must be there,
  // waits for this fence.
  absl::StatusOr<Fence> WaitToUse(ChunkId chunk) const;
  // The operator that comes is the first that reads the chunk.
  absl::Status Used(ChunkId chunk);

  // The block of any storage; invalid while it is away.
  BlockId PlaceOf(int64_t storage) const;
  int64_t BytesOf(int64_t storage) const;
  // A storage's handle is gone: frees its block, if it has one.
  void Release(int64_t storage);
  // The bytes of pieces that are not operators', here or away.
  int64_t taken_bytes() const { return taken_bytes_; }

  // Since creation.
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
  // Where a storage is that is or was a piece.
  struct Place {
    BlockId block;  // invalid: away
    int64_t bytes = 0;
    int64_t chunk = -1;  // that it belongs to now; -1: the operators'
  };

  Chunk& at(ChunkId chunk) { return chunks_[chunk.value - first_]; }
  const Chunk& at(ChunkId chunk) const { return chunks_[chunk.value - first_]; }
  // Null: it was released, or is not the chunk's.
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
