// What a trace tells of a run's training steps, put together for replaying it:
// what the planner was asked, what it decided, and how long everything took in
// the steps that followed that plan.
#ifndef CASTOR_MEMORY_PLAN_RECORDED_RUN_H_
#define CASTOR_MEMORY_PLAN_RECORDED_RUN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "memory/plan/kept_blocks.h"
#include "memory/plan/plan.h"
#include "memory/plan/simulator.h"
#include "tracer/step_trace.h"
#include "tracer/trace_file.h"

namespace castor {

// Medians over steps. A step's length is from the end of the one before, as
// PlanCost::step_ns is.
struct MeasuredSteps {
  int64_t steps = 0;  // how many; 0: nothing below is known
  int64_t step_ns = 0;
  int64_t stall_ns = 0;
  int64_t h2d_bytes = 0;
  int64_t d2h_bytes = 0;
  int64_t device_peak_bytes = 0;  // the most of any
};

// A shape of step and what was asked for it. The request's own pointer to the
// trace is null: see RequestFor.
struct AskedStep {
  StepTrace trace;
  PlanRequest request;
};

struct RecordedRun {
  AskedStep training;
  const PlacementPolicy* policy = nullptr;
  // Absent where the trace does not say.
  std::optional<ActivationCheckpointing> checkpointing;
  // Absent where the run was refused, or stopped before it was settled.
  std::optional<Plan> plan;
  Overheads overheads;  // of the steps on that plan
  MeasuredSteps measured;
  // Evaluation between the steps, where the trace has it: it has to fit too.
  std::vector<AskedStep> evaluations;
  int64_t tokens_per_step = 0;  // 0: not known
};

// By its name in configurations and traces; absent where there is none of it.
std::optional<ActivationCheckpointing> CheckpointingNamed(
    absl::string_view name);

// The request with its trace in place; `asked` outlives it.
PlanRequest RequestFor(const AskedStep& asked);

// Whether a request can be planned and timed at all. InvalidArgument: a trace
// that CheckTrace refuses, a bus of no speed, a step that would take years. A
// request from a file, or with numbers from a user, must pass.
absl::Status CheckRequest(const PlanRequest& request);

// Takes the last plan that training settled on; where there is none, the
// conditions that were asked for. Operators last what they took beside all else
// that ran, with the pauses before them, in the traced step of median length,
// or of many steps on average over the third around it: so their sum is that of
// a typical step. FailedPrecondition: the file has no plan of a training step.
// InvalidArgument: numbers that nothing can be planned with.
absl::StatusOr<RecordedRun> ReadRecordedRun(const TraceContents& contents);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_RECORDED_RUN_H_
