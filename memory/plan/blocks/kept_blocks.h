// The choice of blocks that keep their activations until backward. The trace of
// any choice, with its operators and peaks, follows from that of another.
//
// A block that does not keep them is made again in backward, from its input:
// its forward's operators run once more there. So it takes time and spares
// room, from its forward to its backward:
//
//   non-model bytes of a step of three blocks, the last of which is kept
//
//                          __
//                     ____|  |_
//        _____ ______|         |__     ___
//    ___|     |     kept_bytes    |___|   |___ ..
//    f0 f0  f1 f1   f2 f2   b2 b2 f1 f1 b1 b1 f0 f0 b0 b0
//
// A choice is the same in all micro batches of a step.
#ifndef CASTOR_MEMORY_PLAN_BLOCKS_KEPT_BLOCKS_H_
#define CASTOR_MEMORY_PLAN_BLOCKS_KEPT_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "tracer/step_trace.h"

namespace castor {

// Indexed by BlockRecord::block: true if it keeps its activations.
using KeptBlocks = std::vector<bool>;

// The setting of a run.
enum class ActivationCheckpointing : uint8_t {
  kNone,   // all blocks keep their activations
  kBlock,  // none does
  kAuto,   // those that the plan chooses
};
// Names in configurations and traces, indexed by ActivationCheckpointing.
inline constexpr absl::string_view kActivationCheckpointings[] = {
    "none", "block", "auto"};

// Returns the choice that the trace was made with, up to its highest block's
// number; numbers without a record are not kept.
KeptBlocks KeptBlocksOf(const StepTrace& trace);

// Returns the choice that keeps all blocks.
KeptBlocks AllBlocks(const StepTrace& trace);

// Counts the blocks to choose from, those kept on the device throughout, and
// those that may go to the host in between.
struct BlockCount {
  int64_t blocks = 0;
  int64_t kept = 0;
  int64_t offloaded = 0;
  // Bytes in a micro batch: kept on the device throughout beyond the blocks'
  // inputs, possibly on the host, and saved by blocks that are made again.
  int64_t kept_bytes = 0;
  int64_t offloaded_bytes = 0;
  int64_t spared_bytes = 0;
};
BlockCount CountBlocks(const StepTrace& trace);

// Returns the trace of the same step with another choice; blocks beyond the end
// of `kept` are not kept. Operators that run again take as long as in forward.
// `trace` must pass CheckTrace. No block is offloaded in the result
// (memory/plan/blocks/offloaded_blocks.h). `from` (may be null) gets for each
// moment of the result the one of `trace` whose operator it is. O(operators).
StepTrace WithKeptBlocks(const StepTrace& trace, const KeptBlocks& kept,
                         std::vector<Moment>* from = nullptr);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BLOCKS_KEPT_BLOCKS_H_
