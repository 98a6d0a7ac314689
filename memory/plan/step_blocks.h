// The blocks of device memory that a step of a plan makes and frees, in the
// order in which work is issued:
//
//   actions[t], in order   |  operator t: its tensors, its workspace  |  freed:
//   makes and frees blocks |  are made; it runs                       |  work-
//   of chunks              |                                          |  space,
//                          |                                          | tensors
//
// Activations that go to the host (memory/plan/offloaded_blocks.h) have no
// block as a chunk, but one for each tensor: the one in which the operator made
// it, until an action drops the chunk, and from an action that fetches it
// another one, until backward frees the tensor:
//
//   operator makes it          Drop     Fetch                   last use
//   [ of the tensor, of the chunk ] away [ of the chunk, of the tensor ]
#ifndef CASTOR_MEMORY_PLAN_STEP_BLOCKS_H_
#define CASTOR_MEMORY_PLAN_STEP_BLOCKS_H_

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

// Whether the arena looks for its place from the high end.
constexpr bool IsFromHighEnd(BlockKind kind) {
  return kind == BlockKind::kPiece || kind == BlockKind::kNonModel;
}

struct StepBlock {
  BlockKind kind = BlockKind::kInitial;
  int64_t bytes = 0;   // rounded up to kBlockAlignment, at least that
  Moment moment = {};  // at which it is made; invalid: kInitial
  // The actions that make and free it, numbered in order; -1: none.
  int64_t made_by = -1;
  int64_t freed_by = -1;
  // kInitial: the block of its chunk that is resident when the step ends, which
  // is this one in the next step. Itself, if it stays.
  int64_t at_end = -1;
};

struct BlockEvent {
  int64_t block = -1;
  bool makes = false;  // or frees
};

struct StepBlocks {
  // In the order of making; those of Plan::initial, in its order, first.
  std::vector<StepBlock> blocks;
  int64_t num_initial = 0;
  // But the making of those.
  std::vector<BlockEvent> events;
};

// Whether the trace says when non-model blocks are made and freed, and which of
// them activations that go to the host consist of.
bool SaysWhenTensorsLive(const StepTrace& trace);

// What stays on the device through all steps: reserved bytes, and the optimizer
// states of the device's side.
int64_t StayingBytes(const Plan& plan, const PlanRequest& request);

// `plan` must have passed CheckPlan, for a trace that says so.
StepBlocks BlocksOfStep(const Plan& plan, const StepTrace& trace);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_STEP_BLOCKS_H_
