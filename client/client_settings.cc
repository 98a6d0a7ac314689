#include "client/client_settings.h"

#include <utility>

#include "nlohmann/json.hpp"
#include "run/option_settings.h"
#include "run/program/planning_settings.h"

namespace castor {

using Json = nlohmann::json;

Settings ClientSettings(const std::vector<ClientParameter>& parameters,
                        const ClientOptions& options) {
  // Ranks may have other threads. What tests alone give is not compared.
  const auto& [dtype, loss_scale, rule, seed, gradient_clipping,
               undoes_not_finite, max_skipped_steps, micro_batches,
               zeros_for_missing_gradients, learning_rate, memory,
               bus_bytes_per_s, threads, scribble_freed_memory, gpu, ranks,
               join_meetings, planning] = options;
  Json of_parameters = Json::object();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, elements, shape, trainable, weight_decay, lr_factor] =
        parameters[i];
    Json& of = of_parameters[name];
    of = ParameterSettings(static_cast<int64_t>(i), elements, trainable,
                           weight_decay, lr_factor);
    if (!shape.empty()) of["shape"] = Json(shape).dump();
  }
  Json settings = {
      {"type", DTypeName(dtype)},
      {"fp16", LossScaleSettings(loss_scale)},
      {"optimizer", OptimizerSettings(*rule)},
      {"seed", seed},
      {"gradient_clipping", gradient_clipping},
      {"on_nonfinite_undo", undoes_not_finite},
      {"max_skipped_steps", max_skipped_steps},
      {"gradient_accumulation_steps", micro_batches},
      {"missing_gradients", zeros_for_missing_gradients ? "zero" : "skip"},
      {"parameters", std::move(of_parameters)},
      {"memory", MemorySettings(memory)},
      {"device",
       {{"type", gpu.has_value() ? "cuda" : "host"},
        {"bus_bytes_per_s", bus_bytes_per_s}}}};
  settings.update(PlanningSettings(planning));
  return SettingsOf(settings);
}

std::string RateText(double rate) { return Json(rate).dump(); }

}  // namespace castor
