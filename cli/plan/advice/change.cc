#include "cli/plan/advice/change.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace castor::cli {

void Set(const std::string& setting, Change* change) {
  change->flags.push_back("--set");
  change->flags.push_back(setting);
  change->arguments.overrides.push_back(setting);
}

absl::StatusOr<bool> Fits(const Change& change) {
  // Where the host emulates the device, only a plan tells whether both fit its
  // machine.
  const MachineArguments& machine = change.arguments.machine;
  const bool one_memory = machine.gpu.empty() && !machine.ram.empty();
  const absl::Status status =
      PlanOf(change.arguments,
             one_memory ? AdmitDepth::kPlan : AdmitDepth::kBound,
             change.machine)
          .status();
  if (absl::IsResourceExhausted(status)) return false;
  if (!status.ok()) return status;
  return true;
}

nlohmann::json ChangesJson(const std::vector<Change>& changes) {
  nlohmann::json json = nlohmann::json::array();
  for (const Change& change : changes) {
    json.push_back({{"change", change.kind},
                    {"text", change.text},
                    {"flags", change.flags},
                    {"other_results", change.other_results}});
    if (change.step_seconds > 0) {
      json.back()["predicted_step_seconds"] = change.step_seconds;
    }
  }
  return json;
}

std::vector<std::string> DeviceMemorySettings(const Config& config,
                                              int64_t bytes) {
  std::vector<std::string> settings = {
      absl::StrCat("memory.device_memory=", bytes)};
  // A floor is refused beside a budget that follows nothing.
  if (config.memory.device_memory_floor > 0) {
    settings.push_back("memory.device_memory_floor=null");
  }
  return settings;
}

void SetDeviceMemory(const Config& config, int64_t bytes, Change* change) {
  for (const std::string& setting : DeviceMemorySettings(config, bytes)) {
    Set(setting, change);
  }
}

std::vector<std::string> MicroBatchSettings(int64_t micro_batch,
                                            int64_t accumulation) {
  return {absl::StrCat("train_micro_batch_size_per_gpu=", micro_batch),
          absl::StrCat("gradient_accumulation_steps=", accumulation)};
}

void SetMicroBatch(int64_t micro_batch, int64_t accumulation, Change* change) {
  for (const std::string& setting :
       MicroBatchSettings(micro_batch, accumulation)) {
    Set(setting, change);
  }
}

std::vector<std::string> FormatSettings(const StateFormats& from,
                                        const StateFormats& to) {
  std::vector<std::string> settings;
  for (const auto& [key, value] : ChangedFormats(from, to)) {
    settings.push_back(absl::StrCat(key, "=", value));
  }
  return settings;
}

void SetFormats(const Config& config, const StateFormats& formats,
                Change* change) {
  change->text = absl::StrCat("optimizer states with ", Describe(formats));
  change->other_results = true;
  for (const std::string& setting :
       FormatSettings(config.optimizer.rule->formats(), formats)) {
    Set(setting, change);
  }
}

}  // namespace castor::cli
