#include "cli/train/trace_request.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/train/report.h"

namespace castor::cli {
namespace {

// How many steps after the warm-up a trace shows in full.
constexpr int64_t kTracedSteps = 12;

}  // namespace

absl::StatusOr<TraceWindow> WindowOf(const std::string& trace_steps,
                                     int64_t first, int64_t warmup_steps) {
  if (trace_steps.empty()) {
    return TraceWindow{first, first - 1 + warmup_steps + kTracedSteps};
  }
  const std::vector<std::string> parts = absl::StrSplit(trace_steps, ':');
  TraceWindow window = {first, 0};
  const bool numbers =
      parts.size() <= 2 && absl::SimpleAtoi(parts.back(), &window.last) &&
      (parts.size() == 1 || absl::SimpleAtoi(parts[0], &window.first));
  if (!numbers || window.first < 1 || window.last < window.first) {
    return absl::InvalidArgumentError(
        absl::StrCat("--trace-steps: \"", trace_steps,
                     "\" is not FIRST:LAST, two steps from 1, "
                     "such as 100:104"));
  }
  return window;
}

RunRecord DescribeRun(const Config& config) {
  const ModelConfig& model = config.model;
  RunRecord run;
  run.title =
      model.pretrained.empty()
          ? absl::StrCat(model.type, ", ", model.architecture->Describe())
          : absl::StrCat(model.type, " of ", model.pretrained);
  absl::StrAppend(&run.title, ", ", DTypeName(config.dtype()));
  run.device = config.device.type == DeviceType::kCuda ? "cuda" : "host";
  run.policy = std::string(config.memory.placement_policy->name);
  run.device_budget_bytes = config.memory.device_memory;
  run.host_budget_bytes = config.memory.host_memory;
  run.steps = config.steps;
  run.tokens_per_step = TokensPerStep(config);
  run.threads = ThreadsOf(config.device);
  return run;
}

}  // namespace castor::cli
