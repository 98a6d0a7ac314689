// "activation_checkpointing": "auto": which blocks keep their activations, on
// the device or by way of the host, so that the step is the shortest by the
// simulator.
//
// What a block keeps spares the time of making it again and takes room that
// parameters and optimizer states could have, from its forward to its backward.
// So blocks are ranked by the time that they spare for a byte kept for so long,
// which puts the last ones first where all are alike. How many of that order
// are kept, made again or may go to the host (offloaded_blocks.h), and which,
// is tried out (block_search.h): making all again, which needs the least room,
// and keeping all, if there is room, are always among what is planned.
//
// Which of those that may go to the host do, and when, is the plan's to say;
// those that never do are kept on the device in what is chosen.
#ifndef CASTOR_MEMORY_PLAN_BLOCK_CHOICE_H_
#define CASTOR_MEMORY_PLAN_BLOCK_CHOICE_H_

#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include "memory/plan/admission.h"
#include "memory/plan/kept_blocks.h"
#include "memory/plan/plan.h"
#include "memory/plan/planner.h"
#include "memory/plan/simulator.h"
#include "tracer/step_trace.h"

namespace castor {

// What would be asked of the planner for a trace of the step: how much is
// reserved may depend on it. The request's trace is the argument.
using PlanRequestFor = std::function<PlanRequest(const StepTrace& trace)>;

struct BlockChoice {
  KeptBlocks kept;  // those that are offloaded too
  std::vector<bool> offloaded;
  // These are the step's with this choice.
  StepTrace trace;
  Plan plan;
  PlanCost cost;
};
using BlockChoiceOrRefusal = std::variant<BlockChoice, Refusal>;

// The numbers of the blocks, those to keep first first.
std::vector<int64_t> RankedBlocks(const StepTrace& trace);

// What was measured under one choice, for another: `from` is
// WithKeptBlocks's. Blocks' moves are one plan's own, and left out.
Overheads OverheadsOf(const Overheads& overheads,
                      const std::vector<Moment>& from);

// The choice that a plan of `policy` is fastest with, a pure function of the
// trace and of what is asked. Refusal: that of a step of which nothing is kept.
// `trace` is of any choice, must pass CheckTrace with none kept too, and
// `overheads` are its. `mistake` as in MakePlan.
BlockChoiceOrRefusal ChooseKeptBlocks(const PlacementPolicy* policy,
                                      const StepTrace& trace,
                                      const PlanRequestFor& request_for,
                                      const Overheads& overheads = {},
                                      const PlanMistake& mistake = nullptr);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_BLOCK_CHOICE_H_
