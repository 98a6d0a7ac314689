// Allocates the device's memory in blocks.
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
// The place of a block may depend on which fences are reached, and so on
// timing. Neither its contents nor the success of Allocate depends on timing. A
// block whose place is planned (Addresses in memory/plan/plan.h) gets that
// place. A block is *misplaced* where another block has some of those bytes,
// which happens in no proven plan; it then gets a place as if there were no
// plan.
//
// A *claim* is a number of bytes of the budget that another allocator, such as
// another framework's, has taken elsewhere on the same device. Claims leave
// less room for blocks, but take no addresses of the arena.
//
// The *top* is the end of the memory, lent to another allocator, such as
// another framework's on a GPU. The arena's blocks lie below it, and move down
// when it grows. It counts against the budget as a claim does.
//
// The memory can be resized: it then ends elsewhere, and the budget with it.
//
// A *held* block is not moved, since somebody keeps its address. Nothing is
// allocated while a block is held.
//
// Sizes are rounded up to kBlockAlignment. A block of 0 bytes takes one unit,
// so that every block has a pointer of its own.
//
// Order of use. Whoever queues work on a block calls:
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

// Names a block of an arena. No id is given out twice; a use after Free is a
// bug, and is caught.
using BlockId = Id<struct BlockIdTag>;

enum class End : uint8_t { kLow, kHigh };

struct ArenaOptions {
  // True in tests: all free bytes are filled with NaN (0xFF), on the compute
  // stream, so that a use after a free or a move, or before the first write,
  // shows in the results.
  bool scribble_freed = false;
  // The observer's tag of moves and scribbles and of the waits before them.
  int64_t tag = 0;
};

struct ArenaStats {
  BytesByCategory used;          // now
  BytesByCategory used_at_peak;  // when peak_bytes was first reached
  int64_t used_bytes = 0;        // sum of `used`
  int64_t peak_bytes = 0;        // since the arena was made
  int64_t peak_in_budget = 0;    // since the memory was last resized
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

  // The value of `at` below for a block whose place is not planned.
  static constexpr int64_t kAnywhere = -1;

  // Allocates a block. `owner` is for messages, `at` is the planned offset.
  // InvalidArgument: negative bytes. ResourceExhausted: see invariant 3; names
  // wanted, free and used bytes.
  absl::StatusOr<BlockId> Allocate(int64_t bytes, Category category, End end,
                                   absl::string_view owner,
                                   int64_t at = kAnywhere);
  // Frees the block and returns at once; the next block that takes the bytes
  // waits for this one's last use.
  void Free(BlockId block);

  // Count `bytes` more, or fewer, as activations that lie elsewhere. Claims are
  // not rounded. Claim returns false if fewer bytes are free, and changes
  // nothing then.
  bool Claim(int64_t bytes);
  void Unclaim(int64_t bytes);
  int64_t claimed_bytes() const { return claimed_bytes_; }

  // Makes the top larger: `bytes`, a multiple of kBlockAlignment. Returns the
  // fence that the first use of its new bytes must wait for. ResourceExhausted:
  // fewer bytes are free. Unavailable: a held block is in the way. Nothing has
  // changed after an error.
  absl::StatusOr<Fence> GrowTop(int64_t bytes);
  // Makes the top at most as large as it is: `bytes`. The next block that takes
  // the bytes given back waits for `last_use`.
  void ShrinkTop(int64_t bytes, const Fence& last_use);
  int64_t top_bytes() const { return top_bytes_; }
  // Moves blocks so that all free bytes lie below the top. None may be held.
  void MoveDown();

  // Makes the device's memory `bytes` long (Device::Resize). Blocks that lie
  // behind a nearer end move down first. Blocks until all work is over. None
  // may be held. ResourceExhausted: more is in use, or the device has no room.
  // FailedPrecondition: the end is lent (the top). Nothing but places of blocks
  // has changed then.
  absl::Status Resize(int64_t bytes);

  void Hold(BlockId block) { Get(block).held = true; }
  void LetGo(BlockId block) { Get(block).held = false; }

  // The address is valid until the next Allocate.
  void* Pointer(BlockId block) const { return memory_ + Get(block).offset; }
  int64_t Bytes(BlockId block) const { return Get(block).bytes; }  // rounded
  int64_t Offset(BlockId block) const { return Get(block).offset; }
  absl::string_view Owner(BlockId block) const { return Get(block).owner; }

  // Returns the fence to wait for before a read: the last writes and moves.
  Fence WaitToRead(BlockId block) const;
  // Returns the fence to wait for before a write: all work on the block, or for
  // a fresh block the last use of the bytes that it took.
  Fence WaitToWrite(BlockId block) const { return Get(block).last_use; }
  void NoteRead(BlockId block, const Fence& fence);
  void NoteWrite(BlockId block, const Fence& fence);

  // Counts `bytes_of_b` of the block's bytes under `b` and the rest under `a`,
  // for a payload in which gradients have taken over some parameters' places.
  // `bytes_of_b` in [0, Bytes(block)].
  void SetSplit(BlockId block, Category a, Category b, int64_t bytes_of_b);

  // Sets the observer's tag from now on.
  void set_tag(int64_t tag) { options_.tag = tag; }
  // The budget, rounded down to kBlockAlignment.
  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t free_bytes() const { return capacity_bytes_ - stats_.used_bytes; }
  int64_t LargestHoleBytes() const { return free_.LargestHole(); }
  const ArenaStats& stats() const { return stats_; }

  // Checks the invariants above. Internal: names the broken one, and where.
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

  // Returns true if a block at `end` can take the segment of `fence` without a
  // wait that costs time.
  bool CheapToTake(const Fence& fence, End end) const;
  // Returns the offset of the first fit from `end`, or -1.
  int64_t FindFit(int64_t bytes, End end, bool only_cheap) const;
  // Removes [offset, offset + bytes), all of it free, from the free ranges.
  // Returns the union of their fences.
  Fence Take(int64_t offset, int64_t bytes);
  void Give(int64_t offset, int64_t bytes, const Fence& fence);
  // Moves the fewest bytes that make a hole of `bytes`.
  void Compact(int64_t bytes);
  // Moves the blocks between `begin` and the top down, to `begin`.
  void MoveDown(int64_t begin);
  void Move(int64_t slot, int64_t to);
  // Fills free bytes with NaN after `fence`. Returns the fence of the fill.
  Fence Scribble(int64_t offset, int64_t bytes, const Fence& fence);

  void Account(const Block& block, int sign);
  void AccountActivations(int64_t bytes);
  void UpdatePeaks();

  Device* const device_;
  ArenaOptions options_;
  std::byte* const memory_;
  int64_t capacity_bytes_;
  int64_t most_capacity_bytes_;  // so far
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
