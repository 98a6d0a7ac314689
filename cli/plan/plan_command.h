// castor plan CONFIG, or --model NAME: says whether a run fits, and what it
// needs.
#ifndef CASTOR_CLI_PLAN_PLAN_COMMAND_H_
#define CASTOR_CLI_PLAN_PLAN_COMMAND_H_

#include <string>
#include <vector>

#include "cli/machine/planned_machine.h"

namespace castor::cli {

struct PlanArguments {
  // One of the two; "": not given.
  std::string config_path;
  std::string model;
  std::vector<std::string> overrides;
  int world_size = 1;
  MachineArguments machine = {};
  bool json = false;  // docs/json.md
};
// Gives the exit code (cli/output/exit_code.h).
int PlanRun(const PlanArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_PLAN_COMMAND_H_
