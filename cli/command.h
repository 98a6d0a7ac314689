// What the subcommands of `castor` have in common.
#ifndef CASTOR_CLI_COMMAND_H_
#define CASTOR_CLI_COMMAND_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/exit_code.h"
#include "cli/live/live_options.h"

namespace castor::cli {

// The exit code of a process that ends with `status`.
int ExitCode(const absl::Status& status);
// Prints one line "castor: ..." to stderr and gives the exit code.
int Fail(const absl::Status& status);

struct TrainArguments {
  std::string config_path;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string resume;                  // "", "latest" or a file
  bool resume_changed = false;
  std::string summary_path;
  std::string trace_path;
  std::string trace_steps;  // "", "FIRST:LAST" or "LAST"
  LiveOptions live;
};
int Train(const TrainArguments& arguments);

// Numbers as they were written; an empty string: not given.
struct LaunchArguments {
  std::string num_ranks;
  std::string hostfile;
  std::string master_port;
  std::string remote_shell;
  std::string grace;                  // seconds
  std::vector<std::string> exported;  // variables' names
  std::vector<std::string> train;     // what `castor train` is to be given
};
int Launch(const LaunchArguments& arguments);

struct PlanArguments {
  std::string config_path;
  std::vector<std::string> overrides;
  int world_size = 1;
};
int PlanRun(const PlanArguments& arguments);

struct TraceViewArguments {
  std::string trace_path;
  std::string compare_path;  // "": none
  std::optional<int> port;   // 0: any free one
};
int ViewTrace(const TraceViewArguments& arguments);

struct TraceExportArguments {
  std::string trace_path;
  std::string out_path;
  std::string format;        // "": as out_path tells
  std::string compare_path;  // "": none
};
int ExportTrace(const TraceExportArguments& arguments);

// An empty string: as the run had it, or no file.
struct ReplayArguments {
  std::string trace_path;
  std::string device_memory, host_memory;  // sizes
  std::string policy, bus_gbps, prefetch;
  bool sweep = false;
  std::string csv_path;
  std::string picture_path;
};
int ReplayTrace(const ReplayArguments& arguments);

// checkpoint: a file, or a directory of which the newest valid one is taken.
int Export(const std::string& checkpoint, const std::string& directory);

int Info();

}  // namespace castor::cli

#endif  // CASTOR_CLI_COMMAND_H_
