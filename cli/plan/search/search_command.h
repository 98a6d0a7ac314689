// castor plan --search: the fastest ways to train that fit.
#ifndef CASTOR_CLI_PLAN_SEARCH_SEARCH_COMMAND_H_
#define CASTOR_CLI_PLAN_SEARCH_SEARCH_COMMAND_H_

#include <string>

#include "absl/status/status.h"
#include "cli/plan/plan_arguments.h"

namespace castor::cli {

// Prints the result, and writes the configuration of --write.
// ResourceExhausted: nothing fits; `after` is then the text to print after the
// error. InvalidArgument: the arguments are wrong, or there is something
// already where --write would write.
absl::Status SearchPlans(const PlanArguments& arguments, std::string* after);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_SEARCH_SEARCH_COMMAND_H_
