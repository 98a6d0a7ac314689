// The arguments of `castor plan`.
#ifndef CASTOR_CLI_PLAN_PLAN_ARGUMENTS_H_
#define CASTOR_CLI_PLAN_PLAN_ARGUMENTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/machine/planned_machine.h"

namespace castor::cli {

struct PlanArguments {
  // One of the two; "": not given.
  std::string config_path;
  std::string model;
  std::vector<std::string> overrides;
  int world_size = 1;
  MachineArguments machine = {};
  bool json = false;    // docs/json.md
  bool advise = false;  // also say what would make the step shorter
  // Plan many runs instead of one. --gpu may name several then.
  bool search = false;
  std::string price;  // of an hour of a GPU, of each that --gpu names; "": none
  std::string write;  // a configuration to write; "": none

  bool by_shape() const { return !model.empty(); }
};

// Returns true if one of `overrides` gives the key.
bool Sets(const std::vector<std::string>& overrides, absl::string_view key);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_PLAN_ARGUMENTS_H_
