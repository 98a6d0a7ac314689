#include "cli/figures/figures.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace castor::cli {

nlohmann::json BudgetJson(int64_t bytes) {
  if (bytes >= kUnlimitedBytes) return nullptr;
  return bytes;
}

absl::string_view ResourceKey(Resource resource) {
  static constexpr absl::string_view kKeys[kNumResources] = {
      "compute", "bus_to_device", "bus_from_device", "host", "network"};
  return kKeys[static_cast<int>(resource)];
}

double BusyShare(const Forecast& forecast, Resource resource) {
  if (forecast.step_ns == 0) return 0;
  return static_cast<double>(forecast.busy_ns[static_cast<int>(resource)]) /
         static_cast<double>(forecast.step_ns);
}

nlohmann::json ForecastJson(const Forecast& forecast) {
  nlohmann::json busy = nlohmann::json::object();
  for (int i = 0; i < kNumResources; ++i) {
    const auto resource = static_cast<Resource>(i);
    if (resource == Resource::kNetwork && forecast.world_size == 1) continue;
    busy[std::string(ResourceKey(resource))] = BusyShare(forecast, resource);
  }
  return {
      {"predicted_step_seconds", static_cast<double>(forecast.step_ns) * 1e-9},
      {"predicted_host_peak_bytes", forecast.host_peak_bytes},
      {"binds", std::string(ResourceKey(forecast.binds))},
      {"busy", std::move(busy)},
      {"planned_addresses", forecast.addresses},
      {"blocks", forecast.blocks.blocks},
      {"kept_blocks", forecast.blocks.kept},
      {"offloaded_blocks", forecast.blocks.offloaded}};
}

nlohmann::json RefusalJson(const Refusal& refusal) {
  return {{"fits", false},
          {"binds", absl::StrCat(refusal.tier, "_memory")},
          {"refused",
           {{"operator", refusal.op},
            {"tier", refusal.tier},
            {"peak_bytes", refusal.peak_bytes},
            {"resident_bytes", refusal.resident_bytes},
            {"smallest_device_budget_bytes",
             BudgetJson(refusal.smallest_device_budget_bytes)},
            {"smallest_host_budget_bytes",
             BudgetJson(refusal.smallest_host_budget_bytes)}}},
          {"smallest_device_budget_bytes",
           BudgetJson(refusal.smallest_device_budget_bytes)}};
}

void PrintRefusal(const std::optional<Refusal>& refused,
                  const absl::Status& status, nlohmann::json asked) {
  if (!refused.has_value()) return;
  asked.update(RefusalJson(*refused));
  asked["error"] = std::string(status.message());
  PrintJson(asked);
}

std::string JsonText(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

void PrintJson(const nlohmann::json& json) {
  std::fputs(JsonText(json).c_str(), stdout);
}

}  // namespace castor::cli
