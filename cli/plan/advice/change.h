// A change to a request of `castor plan`, and the result of a plan with it.
#ifndef CASTOR_CLI_PLAN_ADVICE_CHANGE_H_
#define CASTOR_CLI_PLAN_ADVICE_CHANGE_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/plan/plan_arguments.h"
#include "cli/plan/planned_run.h"
#include "run/config/config.h"
#include "run/optim/formats.h"

namespace castor::cli {

struct Change {
  // The name of what is changed, as in docs/json.md: "device_memory",
  // "micro_batch" ...
  std::string kind;
  std::string text;  // "9.70 GiB of device memory"
  // The arguments that make it, where the command line can: "--set",
  // "KEY=VALUE".
  std::vector<std::string> flags = {};
  bool other_results = false;  // it changes the training's results
  // The plan with the change: its arguments, and changes of the machine that no
  // argument can express.
  PlanArguments arguments = {};
  MachineChange machine = {};
  double step_seconds = 0;  // planned with it; 0: only whether it fits
};

// Adds "--set SETTING" to the change's flags and arguments.
void Set(const std::string& setting, Change* change);

// Returns true if a run with the change fits. Anything else that is wrong is an
// error.
absl::StatusOr<bool> Fits(const Change& change);

nlohmann::json ChangesJson(const std::vector<Change>& changes);

// Returns the settings of a device budget for a run as `config` has it; the
// budget then follows nothing.
std::vector<std::string> DeviceMemorySettings(const Config& config,
                                              int64_t bytes);
void SetDeviceMemory(const Config& config, int64_t bytes, Change* change);

// Returns the settings of a micro batch.
std::vector<std::string> MicroBatchSettings(int64_t micro_batch,
                                            int64_t accumulation);
// Returns the settings that change formats of states,
// "optimizer.state_format.moments=int8".
std::vector<std::string> FormatSettings(const StateFormats& from,
                                        const StateFormats& to);

// Makes `change` put the optimizer's states into these formats; `config` has
// the present ones.
void SetFormats(const Config& config, const StateFormats& formats,
                Change* change);

// Makes `change` put so many samples in a micro batch, and so many micro
// batches in a step.
void SetMicroBatch(int64_t micro_batch, int64_t accumulation, Change* change);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_ADVICE_CHANGE_H_
