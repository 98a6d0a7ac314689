#include "run/option_settings.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/comm/agreement.h"

namespace castor {

using Json = nlohmann::json;

Settings SettingsOf(const Json& json) {
  // Names may be any bytes.
  return FlattenSettings(
      json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json MemorySettings(const MemoryOptions& memory) {
  // A machine's share is the machine's own.
  const auto& [policy, device_bytes, follows_device, device_floor_bytes,
               host_bytes, pinned_bytes, machine_share_bytes,
               device_has_own_memory, chunk_bytes, gpu_margin_mem_ratio,
               warmup_steps, prefetch] = memory;
  return {{"placement_policy", policy->name},
          {"device_memory", device_bytes},
          {"device_memory_follows", follows_device},
          {"device_memory_floor", device_floor_bytes},
          {"host_memory", host_bytes},
          {"pinned_memory", pinned_bytes},
          {"device_has_own_memory", device_has_own_memory},
          {"chunk_size", chunk_bytes},
          {"gpu_margin_mem_ratio", gpu_margin_mem_ratio},
          {"warmup_steps", warmup_steps},
          {"prefetch", prefetch}};
}

Json OptimizerSettings(const Optimizer& rule) {
  return {{"type", rule.name()},
          {"params", Json::parse(rule.Params().dump())},
          {"master", static_cast<int>(rule.formats().master)},
          {"moments", static_cast<int>(rule.formats().moments)}};
}

Json LossScaleSettings(const LossScaleOptions& scale) {
  const auto& [dynamic, initial, window, hysteresis, minimum] = scale;
  return {{"dynamic", dynamic},
          {"initial", initial},
          {"loss_scale_window", window},
          {"hysteresis", hysteresis},
          {"min_loss_scale", minimum}};
}

Json ParameterSettings(int64_t number, int64_t elements, bool trainable,
                       double weight_decay, double lr_factor) {
  return {{"number", number},
          {"elements", elements},
          {"trainable", trainable},
          {"weight_decay", weight_decay},
          {"lr_factor", lr_factor}};
}

absl::Status AgreeOnSettings(Communicator& ranks, const Settings& mine) {
  constexpr char kKey[] = "settings";
  std::string first = SettingsText(mine);
  CASTOR_RETURN_IF_ERROR(BroadcastText(ranks, kKey, 0, &first));
  return AgreeOnStatus(ranks, kKey,
                       CheckSameSettings(mine, ReadSettingsText(first)));
}

absl::Status DifferingRates(int64_t step, double first, int rank, double rate) {
  return absl::InvalidArgumentError(absl::StrCat(
      "rank ", rank, ": optimizer.params.lr: the learning rate of step ", step,
      " is ", Json(rate).dump(), ", on rank 0 ", Json(first).dump(),
      ": give all ranks the same"));
}

}  // namespace castor
