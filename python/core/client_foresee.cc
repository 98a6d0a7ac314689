// What a step will take that was not run.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "python/core/castor_client.h"
#include "python/core/client_config.h"
#include "python/core/client_status.h"
#include "runtime/client/client_foresight.h"
#include "runtime/client/launched_ranks.h"

const char* castor_foresee(const char* config_json,
                           const castor_parameter* parameters, int64_t count,
                           const char* pass_json, int world_size) {
  thread_local std::string result;
  const auto pass = nlohmann::json::parse(pass_json, nullptr,
                                          /*allow_exceptions=*/false);
  std::vector<castor::ForeseenUse> uses;
  for (const nlohmann::json& use : pass) {
    castor::ForeseenUse foreseen = {
        .name = use.value("op", ""),
        .phase = use.value("backward", false) ? castor::Phase::kBackward
                                              : castor::Phase::kForward,
        .parameters = {},
        .peak_bytes = use.value("peak_bytes", int64_t{0}),
        .hand_ins = {}};
    for (const int64_t id : use.value("parameters", std::vector<int64_t>())) {
      foreseen.parameters.push_back(castor::ParamId(id));
    }
    for (const int64_t id : use.value("gradients", std::vector<int64_t>())) {
      foreseen.hand_ins.push_back(castor::ParamId(id));
    }
    uses.push_back(std::move(foreseen));
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
      castor::Foresee(asked->parameters, std::move(asked->options), uses,
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
