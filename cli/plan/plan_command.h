// castor plan CONFIG, or --model NAME: says whether a run fits, and how much
// memory and time it needs.
#ifndef CASTOR_CLI_PLAN_PLAN_COMMAND_H_
#define CASTOR_CLI_PLAN_PLAN_COMMAND_H_

#include "cli/plan/plan_arguments.h"

namespace castor::cli {

// Gives the exit code (cli/output/exit_code.h).
int PlanRun(const PlanArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_PLAN_COMMAND_H_
