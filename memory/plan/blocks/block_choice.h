// "activation_checkpointing": "auto": chooses the blocks that keep their
// activations, on the device or by way of the host, so that the simulated step
// is the shortest.
//
// A block that keeps its activations saves the time of making them again, and
// takes room from its forward to its backward that parameters and optimizer
// states could have. So blocks are ranked by the time saved per byte and
// duration kept, which puts the last ones first where all are alike. A search
// (block_search.h) tries how many blocks of that order are kept, made again or
// may go to the host (offloaded_blocks.h), and which. Making all again, which
// needs the least room, and keeping all, if there is room, are always tried.
//
// The plan decides which of the blocks that may go to the host do, and when;
// blocks that never do count as kept on the device in the choice.
#ifndef CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_CHOICE_H_
#define CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_CHOICE_H_

#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/bounds/admission.h"
#include "memory/plan/plan.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "tracer/step_trace.h"

namespace castor {

// Returns the planner's request for a trace of the step, on which reserved
// bytes may depend. The request's trace is the argument.
using PlanRequestFor = std::function<PlanRequest(const StepTrace& trace)>;

struct BlockChoice {
  KeptBlocks kept;  // offloaded blocks included
  std::vector<bool> offloaded;
  // The step's trace, plan and cost with this choice.
  StepTrace trace;
  Plan plan;
  PlanCost cost;
};
using BlockChoiceOrRefusal = std::variant<BlockChoice, Refusal>;

// Returns the numbers of the blocks, from the first to keep to the last.
std::vector<int64_t> RankedBlocks(const StepTrace& trace);

// Converts overheads measured under one choice of blocks to another choice;
// `from` comes from WithKeptBlocks. Moves of blocks belong to one plan and are
// left out.
Overheads OverheadsOf(const Overheads& overheads,
                      const std::vector<Moment>& from);

// Returns the choice with the fastest plan of `policy`, or the refusal of the
// step that keeps nothing. A pure function. `trace` may be of any choice, and
// must pass CheckTrace also with nothing kept; `overheads` belong to it.
// `mistake` as in MakePlan.
BlockChoiceOrRefusal ChooseKeptBlocks(const PlacementPolicy* policy,
                                      const StepTrace& trace,
                                      const PlanRequestFor& request_for,
                                      const Overheads& overheads = {},
                                      const PlanMistake& mistake = nullptr);

// Returns about how long, in ns, a step takes with the choice that
// ChooseKeptBlocks would make, from sketches of four choices at most: to
// compare requests by. INT64_MAX: none of them fits.
int64_t SketchKeptBlocks(const PlacementPolicy* policy, const StepTrace& trace,
                         const PlanRequestFor& request_for);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BLOCKS_BLOCK_CHOICE_H_
