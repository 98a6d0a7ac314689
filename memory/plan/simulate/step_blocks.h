// The blocks of device memory that a step of a plan makes and frees, in the
// order in which work is issued:
//
//   actions[t], in order   |  operator t: its tensors, its workspace  |  freed:
//   makes and frees blocks |  are made; it runs                       |  work-
//   of chunks              |                                          |  space,
//                          |                                          | tensors
//
// A chunk of activations that go to the host
// (memory/plan/blocks/offloaded_blocks.h) has a block for each of its tensors:
// the one in which an operator made the tensor, until an action drops the
// chunk; and from the action that fetches it another one, until backward frees
// the tensor:
//
//   operator makes it          Drop     Fetch                   last use
//   [ of the tensor, of the chunk ] away [ of the chunk, of the tensor ]
#ifndef CASTOR_MEMORY_PLAN_SIMULATE_STEP_BLOCKS_H_
#define CASTOR_MEMORY_PLAN_SIMULATE_STEP_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "memory/plan/plan.h"
#include "tracer/step_trace.h"

namespace castor {

enum class BlockKind : uint8_t {
  kInitial,   // a payload that is resident when the step begins
  kOfAction,  // of a chunk
  kPiece,     // a tensor of a chunk of activations, fetched from the host
  kNonModel,  // a tensor or a workspace, where an operator makes it
};

// Returns true if the arena searches a place from the high end.
constexpr bool IsFromHighEnd(BlockKind kind) {
  return kind == BlockKind::kPiece || kind == BlockKind::kNonModel;
}

struct StepBlock {
  BlockKind kind = BlockKind::kInitial;
  int64_t bytes = 0;   // rounded up to kBlockAlignment, at least that
  Moment moment = {};  // when it is made; invalid for kInitial
  // The actions that make and free it, numbered in order; -1: none.
  int64_t made_by = -1;
  int64_t freed_by = -1;
  // For kInitial: the block of its chunk that is resident when the step ends,
  // and becomes this one in the next step; itself, if it stays.
  int64_t at_end = -1;
};

struct BlockEvent {
  int64_t block = -1;
  bool makes = false;  // false: frees it
};

struct StepBlocks {
  // Those of Plan::initial, in its order, then the others in the order of
  // making.
  std::vector<StepBlock> blocks;
  int64_t num_initial = 0;
  // All but the making of the initial blocks.
  std::vector<BlockEvent> events;
};

// Returns true if the trace says when non-model blocks are made and freed, and
// which of them make up the activations that go to the host.
bool SaysWhenTensorsLive(const StepTrace& trace);

// Returns the bytes that stay on the device through all steps: reserved bytes,
// and the optimizer states of the device's side.
int64_t StayingBytes(const Plan& plan, const PlanRequest& request);

// Lists the blocks of a step. `plan` must have passed CheckPlan, and
// SaysWhenTensorsLive(trace) must be true.
StepBlocks BlocksOfStep(const Plan& plan, const StepTrace& trace);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_SIMULATE_STEP_BLOCKS_H_
