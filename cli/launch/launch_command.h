// castor launch -n N ... train CONFIG: starts the ranks of a run.
#ifndef CASTOR_CLI_LAUNCH_LAUNCH_COMMAND_H_
#define CASTOR_CLI_LAUNCH_LAUNCH_COMMAND_H_

#include <string>
#include <vector>

namespace castor::cli {

// Numbers as they were written; an empty string: not given.
struct LaunchArguments {
  std::string num_ranks;
  std::string hostfile;
  std::string master_port;
  std::string remote_shell;
  std::string grace;                  // seconds
  std::vector<std::string> exported;  // variables' names
  std::vector<std::string> train;     // the arguments of `castor train`
};
// Gives the exit code (cli/output/exit_code.h).
int Launch(const LaunchArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_LAUNCH_LAUNCH_COMMAND_H_
