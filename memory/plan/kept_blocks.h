// Which blocks of a model keep their activations until backward: the trace of
// any choice follows from that of another, operators, peaks and all.
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
#ifndef CASTOR_MEMORY_PLAN_KEPT_BLOCKS_H_
#define CASTOR_MEMORY_PLAN_KEPT_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "tracer/step_trace.h"

namespace castor {

// Indexed by BlockRecord::block: whether it keeps its activations.
using KeptBlocks = std::vector<bool>;

// What a run asks for.
enum class ActivationCheckpointing : uint8_t {
  kNone,   // all blocks keep their activations
  kBlock,  // none does
  kAuto,   // those that the plan chooses
};
// By value, as configurations and traces have them.
inline constexpr absl::string_view kActivationCheckpointings[] = {
    "none", "block", "auto"};

// The choice that the trace is of. As long as its highest block's number makes
// it; numbers without a record are not kept.
KeptBlocks KeptBlocksOf(const StepTrace& trace);

// The choice that keeps all of its blocks.
KeptBlocks AllBlocks(const StepTrace& trace);

// How many different blocks there are to choose, and how many of them are kept
// on the device throughout, or may go to the host in between.
struct BlockCount {
  int64_t blocks = 0;
  int64_t kept = 0;
  int64_t offloaded = 0;
  // In a micro batch: what blocks keep on the device throughout, beyond their
  // inputs, what may be on the host, and what those that are made again would
  // have to keep.
  int64_t kept_bytes = 0;
  int64_t offloaded_bytes = 0;
  int64_t spared_bytes = 0;
};
BlockCount CountBlocks(const StepTrace& trace);

// The trace of the same step with another choice; blocks beyond the end of
// `kept` are not kept. What runs once more takes as long as in forward. `trace`
// must pass CheckTrace. No block is offloaded in the result
// (memory/plan/offloaded_blocks.h). `from` (may be null) gets for each moment
// of the result the one of `trace` whose operator it is. O(operators).
StepTrace WithKeptBlocks(const StepTrace& trace, const KeptBlocks& kept,
                         std::vector<Moment>* from = nullptr);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_KEPT_BLOCKS_H_
