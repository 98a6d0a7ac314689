// Decides before its first step whether a run fits: makes the memory plan that
// a user sees, or the refusal and the smallest change that would help.
#ifndef CASTOR_RUN_PROGRAM_ADMISSION_H_
#define CASTOR_RUN_PROGRAM_ADMISSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memory/plan/layout/chunk_layout.h"
#include "memory/plan/layout/state_layout.h"
#include "memory/plan/plan.h"
#include "memory/plan/policy/policies.h"
#include "run/options.h"
#include "run/program/forecast.h"
#include "tracer/step_trace.h"

namespace castor {

// Bytes of one tier at the moment of its peak.
struct TierReport {
  int64_t budget_bytes = 0;  // kUnlimitedBytes where none was given
  int64_t parameters = 0;    // payloads; gradients take over their places
  int64_t gradients = 0;     // sums of micro batches, with accumulation
  int64_t optimizer_states = 0;
  int64_t activations = 0;
  int64_t workspace = 0;
  int64_t staging = 0;
  int64_t total() const {
    return parameters + gradients + optimizer_states + activations + workspace +
           staging;
  }
};

struct AdmissionReport {
  int world_size = 1;  // bytes are those of one rank
  const PlacementPolicy* policy = DefaultPolicy();
  TierReport device, host;
  // The arena's size: the budget, or what everything needs when unlimited.
  int64_t device_arena_bytes = 0;
  // The least that this policy would have been admitted with.
  int64_t smallest_device_budget_bytes = 0;
  // With everything on the device.
  int64_t unmanaged_device_bytes = 0;
  int64_t num_chunks = 0;
  int64_t chunk_bytes = 0;
  int64_t padding_bytes = 0;
  int64_t parameter_elements = 0;
  // Of this machine's memory: what the run takes (the host's bytes, and the
  // device's where the host emulates it), and what it may take.
  int64_t machine_needed_bytes = 0;
  int64_t machine_bytes = 0;
  // That a step of the plan moves over the bus.
  int64_t h2d_bytes_per_step = 0;
  int64_t d2h_bytes_per_step = 0;
  // The plan's forecast of a step, with estimated durations.
  Forecast forecast = {};
  // Only of a run of which no plan was made, by estimated durations: a time
  // that no plan's step is shorter than, how long it takes by a sketch (or 0),
  // and the operators of the step.
  int64_t least_step_ns = 0;
  int64_t sketched_step_ns = 0;
  int64_t operators = 0;
  std::string peak_operator;
  // How often a step has a chunk's gradients beside its payload.
  int64_t gradient_blocks = 0;
  // How many chunks of the host's side have their sums on the device.
  int64_t device_sums = 0;
  // How many chunks' updates run on the host before the gradients' norm is
  // known, and what their banks take (among the host's optimizer states).
  int64_t speculative_updates = 0;
  int64_t bank_bytes = 0;
};

// Sizes of the chunks and of what is in them.
void FillLayout(const ChunkLayout& layout, AdmissionReport* report);

// The tiers' bytes under `plan` at the moment of the device's peak. `states`
// and `accumulate` say what the chunks' optimizer states are: sums in them
// count as gradients.
void FillTiers(const StepTrace& trace, const Plan& plan,
               const PlanRequest& request, const StateLayout& states,
               bool accumulate, AdmissionReport* report);

// Holds the report's tiers against the machine: sets its machine_needed_bytes
// and machine_bytes. A run that fits both budgets but not the machine would be
// ended by the system in mid-step.
std::optional<Refusal> MachineRefusal(const MemoryOptions& memory,
                                      int64_t machine_bytes,
                                      AdmissionReport* report);

// The report as the table that `castor train` prints.
std::string FormatAdmission(const AdmissionReport& report);

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_ADMISSION_H_
