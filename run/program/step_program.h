// A kind of step that a run repeats, and the plan that its steps follow.
#ifndef CASTOR_RUN_PROGRAM_STEP_PROGRAM_H_
#define CASTOR_RUN_PROGRAM_STEP_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulator.h"
#include "run/program/duration_watch.h"
#include "run/program/forecast.h"
#include "tracer/step_trace.h"

namespace castor {

// StepPlanner makes and changes what follows from the trace.
struct StepProgram {
  // With the blocks that its steps keep at present.
  StepTrace trace;
  // The trace of the steps before these, with other blocks. Work of the last of
  // them may be under way, with names of operators that it refers to.
  StepTrace trace_before = {};
  // Bytes that the host holds for such a step beside chunks.
  int64_t host_bytes = 0;
  // Where its steps find the optimizer states of the layout's chunks, and leave
  // them, so that none need move between steps of several shapes. Empty: the
  // planner chooses, as it does where there is no such plan.
  std::vector<Side> fixed_side;

  std::shared_ptr<const Plan> plan;  // null: it is to be made
  PlanRequest request;               // what the plan was asked for
  Forecast forecast;                 // what it foresees
  // As measured. Moves are one plan's own, and left out.
  Overheads handoffs;
  bool speculative = false;  // the plan has updates ahead of the norm
  int64_t plan_number = 0;   // from 1, over all of a run's programs
  DurationWatch watch;       // of the steps that follow the plan
};

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_STEP_PROGRAM_H_
