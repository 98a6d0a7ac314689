// The device's memory, handed out in blocks.
//
// One arena owns a device's one block of memory. Chunk payloads and optimizer
// chunks grow from the low end, non-model data from the high end:
//
//   0                                                     capacity_bytes()
//   | payload | payload | ~~~ | optimizer |  ...  | ~ | activation | work |
//     End::kLow ->           a hole                       <- End::kHigh
//
// Words. A *segment* is a run of bytes that is either a block or free; a *hole*
// is a longest run of free segments. Free segments keep the fences of their
// last use, each its own, so that a block waits only for those whose bytes it
// takes.
//
// Invariants (CheckConsistency):
//  1. Segments tile [0, capacity) up to the top exactly: no gap, no overlap;
//     each is a multiple of kBlockAlignment. capacity = memory_bytes() rounded
//     down to it.
//  2. Bytes by category sum to the bytes of all blocks, all claims and the top,
//     which never exceed memory_bytes().
//  3. Allocate fails with ResourceExhausted if and only if the sum of free
//     bytes is less than the bytes wanted: where no hole fits, blocks are moved
//     (device-to-device copies on the compute stream) until one does.
//
// Where a block is placed may depend on which fences are reached, so on time;
// whether it can be placed does not, nor what it holds. A block whose place is
// planned (Addresses in memory/plan/plan.h) gets that one; only where another
// block has some of its bytes, which no proven plan does, it is *misplaced*: it
// gets a place as if there were no plan.
//
// A *claim* is bytes of the budget that have no place here: somebody else, such
// as another framework's allocator, has memory of the same device elsewhere.
// They leave less room for blocks, and take none of the addresses.
//
// The *top* is the last bytes of the memory, where somebody else hands out
// blocks of their own, as another framework's allocator on a GPU does. Blocks
// here lie below it, and move down where it grows. It counts as a claim does.
//
// A *held* block is not moved: somebody knows its address. Nothing is allocated
// while one is held.
//
// Sizes are rounded up to kBlockAlignment. A block of 0 bytes takes one unit,
// so that every block has a pointer of its own.
//
// Order of use. Who queues work on a block:
//   reads   Wait(stream, WaitToRead(b));   queue;  NoteRead(b, its fence)
//   writes  Wait(stream, WaitToWrite(b));  queue;  NoteWrite(b, its fence)
// and takes Pointer(b) after the last Allocate before queueing: Allocate may
// move blocks. Moves wait for all noted work, later work waits for the move.
//
// Threads: one, the one that queues work on the device. Nothing here blocks.
// Lifetime: the device outlives the arena.
// Cost: Allocate and Free take well under a microsecond while segments are few;
// linear in the number of free segments, in all segments where blocks move.
#ifndef CASTOR_MEMORY_EXEC_ARENA_H_
#define CASTOR_MEMORY_EXEC_ARENA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/free_ranges.h"
#include "base/ids.h"
#include "device/device.h"
#include "memory/exec/category.h"

namespace castor {

// A block of an arena. Never given out twice; using one after Free is a bug
// that is caught.
using BlockId = Id<struct BlockIdTag>;

enum class End : uint8_t { kLow, kHigh };

struct ArenaOptions {
  // Tests set it: all bytes that are free are filled with NaN (0xFF), on the
  // compute stream, so that what is used after it was freed or moved, or before
  // it was written, shows.
  bool scribble_freed = false;
  // The observer's tag of moves and scribbles and of the waits before them.
  int64_t tag = 0;
};

struct ArenaStats {
  BytesByCategory used;          // now
  BytesByCategory used_at_peak;  // when peak_bytes was first reached
  int64_t used_bytes = 0;        // sum of `used`
  int64_t peak_bytes = 0;        // since the arena was made
  int64_t transient_bytes = 0;   // of IsTransient categories, now
  int64_t compactions = 0;       // allocations for which blocks moved
  int64_t moved_bytes = 0;
  int64_t placed_as_planned = 0;  // blocks
  int64_t misplaced = 0;          // blocks
};

class Arena {
 public:
  // InvalidArgument: `device` is null.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(
      Device* device, const ArenaOptions& options = {});

  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // For `at` below: the block's place is not planned.
  static constexpr int64_t kAnywhere = -1;

  // `owner` is for messages, `at` the planned offset. InvalidArgument: negative
  // bytes. ResourceExhausted: see invariant 3; names wanted, free and used
  // bytes.
  absl::StatusOr<BlockId> Allocate(int64_t bytes, Category category, End end,
                                   absl::string_view owner,
                                   int64_t at = kAnywhere);
  // Returns at once; who takes the bytes next waits for the block's last use.
  void Free(BlockId block);

  // Counts `bytes` more, or fewer, as activations that lie elsewhere. Claims
  // are not rounded. False: fewer bytes are free, and nothing has changed.
  bool Claim(int64_t bytes);
  void Unclaim(int64_t bytes);
  int64_t claimed_bytes() const { return claimed_bytes_; }

  // The top becomes `bytes`, which it is less than now; multiples of
  // kBlockAlignment. Gives what the bytes that come new wait for.
  // ResourceExhausted: fewer are free. Unavailable: a held block is in the way.
  // Nothing has changed then.
  absl::StatusOr<Fence> GrowTop(int64_t bytes);
  // The top becomes `bytes`, at most what it is. Who takes the others next
  // waits for `last_use`.
  void ShrinkTop(int64_t bytes, const Fence& last_use);
  int64_t top_bytes() const { return top_bytes_; }
  // Moves blocks so that all free bytes lie below the top. None may be held.
  void MoveDown();

  void Hold(BlockId block) { Get(block).held = true; }
  void LetGo(BlockId block) { Get(block).held = false; }

  // Valid until the next Allocate.
  void* Pointer(BlockId block) const { return memory_ + Get(block).offset; }
  int64_t Bytes(BlockId block) const { return Get(block).bytes; }  // rounded
  int64_t Offset(BlockId block) const { return Get(block).offset; }
  absl::string_view Owner(BlockId block) const { return Get(block).owner; }

  // What a stream waits for before it reads: the last writes or moves.
  Fence WaitToRead(BlockId block) const;
  // ... before it writes: all work that touched the block, for a fresh block
  // what last used the bytes that it took.
  Fence WaitToWrite(BlockId block) const { return Get(block).last_use; }
  void NoteRead(BlockId block, const Fence& fence);
  void NoteWrite(BlockId block, const Fence& fence);

  // `bytes_of_b` of the block's bytes count under `b`, the rest under `a`: a
  // payload in which gradients have taken over some parameters' places.
  // `bytes_of_b` in [0, Bytes(block)].
  void SetSplit(BlockId block, Category a, Category b, int64_t bytes_of_b);

  // The observer's tag from now on.
  void set_tag(int64_t tag) { options_.tag = tag; }
  // What the arena can hold: the budget, but for less than kBlockAlignment.
  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t free_bytes() const { return capacity_bytes_ - stats_.used_bytes; }
  int64_t LargestHoleBytes() const { return free_.LargestHole(); }
  const ArenaStats& stats() const { return stats_; }

  // Internal: which invariant is broken, where.
  absl::Status CheckConsistency() const;

 private:
  struct Block {
    int64_t offset = 0;
    int64_t bytes = 0;  // 0: the slot is empty
    int64_t generation = 0;
    End end = End::kLow;
    Category a = Category::kParameters, b = Category::kParameters;
    int64_t bytes_of_b = 0;
    bool written = false;
    bool held = false;
    Fence ready;     // last writes and moves
    Fence last_use;  // all work
    std::string owner;
  };

  Arena(Device* device, const ArenaOptions& options);

  const Block& Get(BlockId block) const;
  Block& Get(BlockId block);
  int64_t TakeSlot();

  // Whether a block at `end` that takes the segment has nothing to wait for
  // that would cost time.
  bool CheapToTake(const Fence& fence, End end) const;
  // Offset of the first fit from `end`, or -1.
  int64_t FindFit(int64_t bytes, End end, bool only_cheap) const;
  // Removes [offset, offset + bytes) from the free ranges; the union of the
  // fences of those it touches. All of it must be free.
  Fence Take(int64_t offset, int64_t bytes);
  void Give(int64_t offset, int64_t bytes, const Fence& fence);
  // Moves the fewest bytes that make a hole of `bytes`.
  void Compact(int64_t bytes);
  // Moves the blocks between `begin` and the top down, to `begin`.
  void MoveDown(int64_t begin);
  void Move(int64_t slot, int64_t to);
  // Fills free bytes, after `fence`; the fence of the filling.
  Fence Scribble(int64_t offset, int64_t bytes, const Fence& fence);

  void Account(const Block& block, int sign);
  void AccountActivations(int64_t bytes);
  void UpdatePeaks();

  Device* const device_;
  ArenaOptions options_;
  std::byte* const memory_;
  const int64_t capacity_bytes_;
  int64_t claimed_bytes_ = 0;
  int64_t top_bytes_ = 0;
  ArenaStats stats_;
  std::vector<Block> slots_;
  std::vector<int64_t> empty_slots_;
  absl::btree_map<int64_t, int64_t> blocks_;  // offset -> slot
  FreeRanges<Fence> free_;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_EXEC_ARENA_H_
