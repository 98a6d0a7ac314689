// castor replay TRACE: plans a recorded run under other budgets.
#ifndef CASTOR_CLI_REPLAY_REPLAY_COMMAND_H_
#define CASTOR_CLI_REPLAY_REPLAY_COMMAND_H_

#include <string>

namespace castor::cli {

// An empty string: as the run had it, or no file.
struct ReplayArguments {
  std::string trace_path;
  std::string device_memory, host_memory;  // sizes
  std::string policy, bus_gbps, prefetch, activation_checkpointing;
  bool sweep = false;
  std::string csv_path;
  std::string picture_path;
  bool json = false;  // docs/json.md
};
// Gives the exit code (cli/output/exit_code.h).
int ReplayTrace(const ReplayArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_REPLAY_REPLAY_COMMAND_H_
