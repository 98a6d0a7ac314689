// Says what binds a run that fits, and which changes would make its steps
// shorter: each change is planned, and given with the step time of its plan.
#ifndef CASTOR_CLI_PLAN_ADVICE_WHAT_WOULD_HELP_H_
#define CASTOR_CLI_PLAN_ADVICE_WHAT_WOULD_HELP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/plan/advice/change.h"
#include "cli/plan/plan_arguments.h"
#include "cli/plan/planned_run.h"

namespace castor::cli {

// Returns the changes that make a step shorter by a hundredth at least, from
// the one that gains the most, each alone. Kinds: "device_memory",
// "host_memory", "bus", "host_rate", "network", "micro_batch" (the next ones of
// the same batch), "activation_checkpointing", "state_format" (each). A change
// that cannot gain that much by its bound is not planned. `run` is the run that
// was asked for, which has steps of `step_seconds`.
absl::StatusOr<std::vector<Change>> WhatWouldHelp(
    const PlanArguments& arguments, const PlannedRun& run, double step_seconds);

// Returns a line, "what binds: ...".
std::string FormatBinding(const Forecast& forecast);

// Returns a line for each, under one that says what they are.
std::string FormatHelps(const std::vector<Change>& changes,
                        double step_seconds);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_ADVICE_WHAT_WOULD_HELP_H_
