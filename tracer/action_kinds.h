// The kinds of a plan's actions, in the words of memory/plan/plan.h. A kind is
// a row of one table: when it is legal, what it leaves, and what it does to
// which of the chunk's blocks. All who carry out, simulate or show actions read
// the table; the checker (memory/plan/check) and the chunk store
// (memory/exec/chunk_store.h) have rules of their own.
#ifndef CASTOR_TRACER_ACTION_KINDS_H_
#define CASTOR_TRACER_ACTION_KINDS_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "tracer/step_trace.h"
#include "tracer/work_tag.h"

namespace castor {

// The numbers are those in trace files.
enum class ActionKind : uint8_t {
  kFetch,
  kCopyBack,
  kDrop,
  kMakeGradients,
  kSendGradients,
  kDropGradients,
  kMakeSum,
  kSendSum,
  kDropSum,
  kSpeculate,
};

// The blocks of a chunk that actions work on. The bank is on the host and stays
// from step to step; the others are on the device.
enum class ChunkBlock : uint8_t { kPayload, kGradients, kSum, kBank };
inline constexpr int kNumChunkBlocks = 4;

// An action makes the block, copies its content and frees it, in this order. A
// kind does some of the three.
struct ActionRow {
  ActionKind kind;
  ChunkBlock block;
  bool makes = false;
  // The kind of work that copies, whose row has the direction, and the name and
  // the colour in views. kOther: nothing is copied.
  WorkKind copy = WorkKind::kOther;
  bool frees = false;

  constexpr CopyDirection direction() const { return RowOf(copy).direction; }
};

inline constexpr ActionRow kActionRows[] = {
    // Home -> device. The home must be valid, the payload not resident. After
    // it the payload is resident and clean. For activations that the next
    // operator makes (memory/plan/blocks/offloaded_blocks.h) nothing moves, and
    // they are dirty after that operator.
    {.kind = ActionKind::kFetch,
     .block = ChunkBlock::kPayload,
     .makes = true,
     .copy = WorkKind::kFetch},
    // Device -> home. The payload must be resident and dirty. After it the
    // payload is clean and the home valid.
    {.kind = ActionKind::kCopyBack,
     .block = ChunkBlock::kPayload,
     .copy = WorkKind::kCopyBack},
    // The payload must be clean.
    {.kind = ActionKind::kDrop, .block = ChunkBlock::kPayload, .frees = true},

    // Makes a separate gradient block for a micro batch, so that the payload
    // stays clean. No gradient may have been written to the payload since the
    // last reduce.
    {.kind = ActionKind::kMakeGradients,
     .block = ChunkBlock::kGradients,
     .makes = true},
    // Gradient block -> home, where the host adds the gradients up. Until it
    // has, the home cannot be fetched.
    {.kind = ActionKind::kSendGradients,
     .block = ChunkBlock::kGradients,
     .copy = WorkKind::kCopyBack},
    // The block must have been sent, or added to a device sum.
    {.kind = ActionKind::kDropGradients,
     .block = ChunkBlock::kGradients,
     .frees = true},

    // Makes a device sum: a block for the sum of the chunk's gradients of this
    // step, to which the device adds them from then on. None may have been
    // reduced in the step.
    {.kind = ActionKind::kMakeSum, .block = ChunkBlock::kSum, .makes = true},
    // Device sum -> optimizer states. All of the step's gradients of the chunk
    // must be in it.
    {.kind = ActionKind::kSendSum,
     .block = ChunkBlock::kSum,
     .copy = WorkKind::kCopyBack},
    // The sum must have been sent.
    {.kind = ActionKind::kDropSum, .block = ChunkBlock::kSum, .frees = true},

    // The host updates the chunk before the gradients' norm is known, into its
    // bank. All of the step's gradients of the chunk must be on the host, and
    // reduced. Until its kUpdate it cannot be fetched.
    {.kind = ActionKind::kSpeculate, .block = ChunkBlock::kBank},
};
inline constexpr int kNumActionKinds = std::size(kActionRows);

constexpr const ActionRow& RowOf(ActionKind kind) {
  return kActionRows[static_cast<size_t>(kind)];
}
static_assert(AreInOrder(kActionRows));

// Returns the bytes of a chunk's block on the device, which is not its bank.
constexpr int64_t BlockBytes(ChunkBlock block, const ChunkInfo& chunk) {
  return block == ChunkBlock::kSum ? chunk.sum_bytes : chunk.payload_bytes;
}

}  // namespace castor

#endif  // CASTOR_TRACER_ACTION_KINDS_H_
