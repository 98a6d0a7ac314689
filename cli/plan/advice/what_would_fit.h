// Finds the changes that make a run fit that does not: the smallest change of
// each kind, each alone, and each found by asking whether a run with it fits.
#ifndef CASTOR_CLI_PLAN_ADVICE_WHAT_WOULD_FIT_H_
#define CASTOR_CLI_PLAN_ADVICE_WHAT_WOULD_FIT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/plan/advice/change.h"
#include "cli/plan/plan_arguments.h"
#include "cli/plan/planned_run.h"
#include "memory/plan/plan.h"

namespace castor::cli {

// Kinds: "device_memory", "host_memory" (a machine's), "gpu" (the one with the
// least memory), "nodes", "gpus_per_node", "world_size", "state_format",
// "micro_batch", "activation_checkpointing", "chunk_size", "sequence_length".
// A kind of which no change alone would do is missing. `run` is the refused
// run, before it had a session.
absl::StatusOr<std::vector<Change>> WhatWouldFit(const PlanArguments& arguments,
                                                 const PlannedRun& run,
                                                 const Refusal& refusal);

// Returns a line for each, under one that says what they are.
std::string FormatFits(const std::vector<Change>& changes);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_ADVICE_WHAT_WOULD_FIT_H_
