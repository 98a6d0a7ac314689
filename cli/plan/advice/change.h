// A change to what `castor plan` was asked, and what a plan with it came to.
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
  // What is changed, as in docs/json.md: "device_memory", "micro_batch" ...
  std::string kind;
  std::string text;  // "9.70 GiB of device memory"
  // What makes it, where the command line can: "--set", "KEY=VALUE".
  std::vector<std::string> flags = {};
  bool other_results = false;  // the training's results are others with it
  // The plan with the change: arguments, and what of the machine no argument
  // can say.
  PlanArguments arguments = {};
  MachineChange machine = {};
  double step_seconds = 0;  // that was planned with it; 0: only whether it fits
};

// `change` with "--set SETTING" in its flags and arguments.
void Set(const std::string& setting, Change* change);

// Whether a run with the change fits. What is wrong otherwise is an error.
absl::StatusOr<bool> Fits(const Change& change);

nlohmann::json ChangesJson(const std::vector<Change>& changes);

// The settings of a device budget for a run as `config` has it, which then
// follows nothing.
std::vector<std::string> DeviceMemorySettings(const Config& config,
                                              int64_t bytes);
void SetDeviceMemory(const Config& config, int64_t bytes, Change* change);

// The settings of a micro batch.
std::vector<std::string> MicroBatchSettings(int64_t micro_batch,
                                            int64_t accumulation);
// Those that change formats of states, "optimizer.state_format.moments=int8".
std::vector<std::string> FormatSettings(const StateFormats& from,
                                        const StateFormats& to);

// `change`, of what `config` says, with the optimizer's states in these
// formats.
void SetFormats(const Config& config, const StateFormats& formats,
                Change* change);

// `change` with so many samples in a micro batch, and so many of these.
void SetMicroBatch(int64_t micro_batch, int64_t accumulation, Change* change);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_ADVICE_CHANGE_H_
