// What binds a run that fits, and what would make its steps shorter: each
// change is planned, and told with the step that its plan has.
#ifndef CASTOR_CLI_PLAN_ADVICE_WHAT_WOULD_HELP_H_
#define CASTOR_CLI_PLAN_ADVICE_WHAT_WOULD_HELP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/plan/advice/change.h"
#include "cli/plan/plan_arguments.h"
#include "cli/plan/planned_run.h"

namespace castor::cli {

// The changes that make a step shorter by a hundredth at least, from the one
// that gains the most, each alone. Kinds: "device_memory", "host_memory",
// "bus", "host_rate", "network", "micro_batch" (the next ones of the same
// batch), "activation_checkpointing", "state_format" (each). What cannot gain
// that much by its bound is not planned. `run` is what was asked, which has
// steps of `step_seconds`.
absl::StatusOr<std::vector<Change>> WhatWouldHelp(
    const PlanArguments& arguments, const PlannedRun& run, double step_seconds);

// "what binds: ...": a line.
std::string FormatBinding(const Forecast& forecast);

// A line for each, under one that says what they are.
std::string FormatHelps(const std::vector<Change>& changes,
                        double step_seconds);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_ADVICE_WHAT_WOULD_HELP_H_
