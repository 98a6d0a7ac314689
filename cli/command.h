// What the subcommands of `castor` have in common.
#ifndef CASTOR_CLI_COMMAND_H_
#define CASTOR_CLI_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/live/live_options.h"

namespace castor::cli {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;    // the machine's or our own
inline constexpr int kUserError = 2;  // a bad request; nothing was done

// Prints one line "castor: ..." to stderr and gives the exit code.
int Fail(const absl::Status& status);

struct TrainArguments {
  std::string config_path;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string resume;                  // "", "latest" or a file
  std::string summary_path;
  std::string trace_path;
  std::string trace_steps;  // "", "FIRST:LAST" or "LAST"
  LiveOptions live;
};
int Train(const TrainArguments& arguments);

struct PlanArguments {
  std::string config_path;
  std::vector<std::string> overrides;
};
int PlanRun(const PlanArguments& arguments);

// checkpoint: a file, or a directory of which the newest valid one is taken.
int Export(const std::string& checkpoint, const std::string& directory);

int Info();

}  // namespace castor::cli

#endif  // CASTOR_CLI_COMMAND_H_
