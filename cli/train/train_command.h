// castor train CONFIG: trains, and reports.
#ifndef CASTOR_CLI_TRAIN_TRAIN_COMMAND_H_
#define CASTOR_CLI_TRAIN_TRAIN_COMMAND_H_

#include <string>
#include <vector>

#include "cli/live/live_options.h"

namespace castor::cli {

struct TrainArguments {
  std::string config_path;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string resume;                  // "", "latest" or a file
  bool resume_changed = false;
  std::string summary_path;
  std::string log_path;  // of --log-json
  std::string trace_path;
  std::string trace_steps;  // "", "FIRST:LAST" or "LAST"
  bool no_parameters_sha256 = false;
  LiveOptions live;
};
// Gives the exit code (cli/output/exit_code.h).
int Train(const TrainArguments& arguments);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_TRAIN_COMMAND_H_
