// Reads from a trace file all that a replay of the run's training steps needs:
// the request to the planner, its plan, and the measured durations of the steps
// that followed that plan.
#ifndef CASTOR_MEMORY_PLAN_REPLAY_RECORDED_RUN_H_
#define CASTOR_MEMORY_PLAN_REPLAY_RECORDED_RUN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/plan.h"
#include "memory/plan/simulate/simulator.h"
#include "tracer/step_trace.h"
#include "tracer/trace_file.h"

namespace castor {

// Medians over steps. A step's length counts from the end of the one before, as
// PlanCost::step_ns does.
struct MeasuredSteps {
  int64_t steps = 0;  // number of steps; 0: nothing below is known
  int64_t step_ns = 0;
  int64_t stall_ns = 0;
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
  int64_t device_peak_bytes = 0;  // the largest of any step
};

// A shape of step and the planner's request for it. The request's own pointer
// to the trace is null: see RequestFor.
struct AskedStep {
  StepTrace trace;
  PlanRequest request;
};

struct RecordedRun {
  AskedStep training;
  const PlacementPolicy* policy = nullptr;
  // Absent if the trace does not say.
  std::optional<ActivationCheckpointing> checkpointing;
  // Absent if the run was refused, or stopped before durations had settled.
  std::optional<Plan> plan;
  Overheads overheads;  // of the steps on that plan
  MeasuredSteps measured;
  // Evaluations between the steps, if the trace has any; they have to fit too.
  std::vector<AskedStep> evaluations;
  int64_t tokens_per_step = 0;  // 0: not known
};

// Returns the setting of that name in configurations and traces; absent if
// there is none.
std::optional<ActivationCheckpointing> CheckpointingNamed(
    absl::string_view name);

// Returns the request with its trace in place; `asked` outlives it.
PlanRequest RequestFor(const AskedStep& asked);

// Checks that a request can be planned and timed. InvalidArgument: a trace that
// CheckTrace refuses, a bus without speed, a step that would take years. A
// request from a file, or with numbers from a user, must pass.
absl::Status CheckRequest(const PlanRequest& request);

// Reads the last plan that training settled on; without any, the last request.
// Operators get the durations that they had in the traced step of median
// length, pauses before them included, or with many steps the average over the
// middle third of them by length: so their sum is that of a typical step.
// FailedPrecondition: the file has no plan of a training step. InvalidArgument:
// numbers with which nothing can be planned.
absl::StatusOr<RecordedRun> ReadRecordedRun(const TraceContents& contents);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_REPLAY_RECORDED_RUN_H_
