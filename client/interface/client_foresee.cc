// Foresees what a step will take that was not run.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/json_reader.h"
#include "client/client_foresight.h"
#include "client/interface/castor_client.h"
#include "client/interface/client_config.h"
#include "client/interface/client_status.h"
#include "client/launched_ranks.h"
#include "nlohmann/json.hpp"

namespace {

using castor::Json;

// Numbers of parameters; without the key none.
void ReadParameters(castor::JsonReader& use, const char* key,
                    std::vector<castor::ParamId>* out) {
  const Json* const list = use.Raw(key);
  if (list == nullptr) return;
  for (const Json& number : list->is_array() ? *list : Json::array({nullptr})) {
    if (!number.is_number_integer()) {
      return use.FailExpected(key, "a list of parameters' numbers");
    }
    out->push_back(castor::ParamId(number.get<int64_t>()));
  }
}

// Reads a pass in the form that castor_client.h describes.
absl::StatusOr<std::vector<castor::ForeseenUse>> ReadPass(const char* text) {
  const Json pass = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!pass.is_array()) {
    return absl::InvalidArgumentError("a pass is a list of uses, in JSON");
  }
  std::vector<castor::ForeseenUse> uses;
  for (const Json& each : pass) {
    castor::JsonReport report(
        absl::StrCat("use ", uses.size(), " of the pass"));
    castor::JsonReader use(each, report);
    castor::ForeseenUse foreseen;
    bool backward = false;
    use.String("op", &foreseen.name);
    use.Bool("backward", &backward);
    use.Int("peak_bytes", &foreseen.peak_bytes, {.min = 0});
    ReadParameters(use, "parameters", &foreseen.parameters);
    ReadParameters(use, "gradients", &foreseen.hand_ins);
    if (!report.status().ok()) return report.status();
    foreseen.phase =
        backward ? castor::Phase::kBackward : castor::Phase::kForward;
    uses.push_back(std::move(foreseen));
  }
  return uses;
}

}  // namespace

const char* castor_foresee(const char* config_json,
                           const castor_parameter* parameters, int64_t count,
                           const char* pass_json, int world_size) {
  thread_local std::string result;
  const auto uses = ReadPass(pass_json);
  if (!uses.ok()) {
    castor::Tell(uses.status());
    return nullptr;
  }
  if (world_size == 0) {
    const auto launch = castor::LaunchOfClient(castor::CurrentEnvironment());
    if (!launch.ok()) {
      castor::Tell(launch.status());
      return nullptr;
    }
    world_size = launch->world_size;
  }
  auto asked = castor::ReadAsked(
      config_json, parameters, count, /*place=*/nullptr,
      {.rank = 0, .world_size = world_size, .join = nullptr}, world_size);
  if (!asked.ok()) {
    castor::Tell(asked.status());
    return nullptr;
  }
  const castor::MemoryConfig& memory = asked->config.memory;
  const auto foreseen =
      castor::Foresee(asked->parameters, std::move(asked->options), *uses,
                      {.bytes = memory.device_memory,
                       .gpu_margin_mem_ratio = memory.gpu_margin_mem_ratio});
  if (!foreseen.ok()) {
    castor::Tell(foreseen.status());
    return nullptr;
  }
  nlohmann::ordered_json summary;
  summary["policy"] = castor::PolicyOf(asked->config);
  summary["precision"] = castor::DTypeName(asked->config.dtype());
  summary["fits"] = foreseen->fits;
  summary["device_budget_bytes"] = foreseen->device_budget_bytes;
  summary["smallest_device_budget_bytes"] =
      foreseen->smallest_device_budget_bytes;
  summary["world_size"] = world_size;
  summary["parameters"] = foreseen->parameters;
  summary["chunks"] = foreseen->chunks;
  if (foreseen->fits) {
    summary["device_peak_bytes"] = foreseen->device_peak_bytes;
    summary["host_peak_bytes"] = foreseen->host_peak_bytes;
    summary["h2d_bytes_per_step"] = foreseen->h2d_bytes;
    summary["d2h_bytes_per_step"] = foreseen->d2h_bytes;
  }
  summary["operator"] = foreseen->use;
  summary["peak_bytes"] = foreseen->peak_bytes;
  summary["resident_bytes"] = foreseen->resident_bytes;
  result = summary.dump();
  return result.c_str();
}
