#include "cli/train/trace_request.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/train/report.h"

namespace castor::cli {

RunRecord DescribeRun(const Config& config, double tokens_per_step) {
  const ModelConfig& model = config.model;
  RunRecord run;
  run.title =
      model.pretrained.empty()
          ? absl::StrCat(model.type, ", ", model.architecture->Describe())
          : absl::StrCat(model.type, " of ", model.pretrained);
  absl::StrAppend(&run.title, ", ", DTypeName(config.dtype()));
  run.device = config.device.type == DeviceType::kCuda ? "cuda" : "host";
  run.policy = std::string(config.memory.placement_policy->name);
  run.activation_checkpointing =
      std::string(kActivationCheckpointings[static_cast<int>(
          config.memory.activation_checkpointing)]);
  run.device_budget_bytes = config.memory.device_memory;
  run.host_budget_bytes = config.memory.host_memory;
  run.steps = config.steps;
  run.tokens_per_step = std::llround(tokens_per_step);
  run.threads = ThreadsOf(config.device);
  return run;
}

}  // namespace castor::cli
