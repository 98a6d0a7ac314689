#include "runtime/train/trainer_settings.h"

#include <utility>

#include "base/dtype.h"
#include "nlohmann/json.hpp"
#include "run/option_settings.h"
#include "run/program/planning_settings.h"

namespace castor {
namespace {

using Json = nlohmann::json;

Json ShapeSettings(const StepShape& shape) {
  const auto& [batch, length, micro_batches, training, cache, documents,
               segments, terms] = shape;
  return {{"batch", batch},
          {"length", length},
          {"micro_batches", micro_batches},
          {"training", training},
          {"cache", cache},
          {"documents", documents},
          {"segments", segments},
          {"terms", terms}};
}

}  // namespace

Settings SettingsOf(const TrainerOptions& options, const Engine& engine) {
  // Ranks may have other threads, speeds and devices, and are stopped by
  // themselves. Options that only tests give are not compared.
  const auto& [shape, other_lengths, ranks, eval_batch, eval_length, optimizer,
               weight_decay, lr_factor, loss_scale, max_skipped_steps,
               learning_rate, memory, threads, bus_bytes_per_s, open_device,
               gpu_sizes, roofline, bus, activation_checkpointing, admit_only,
               admit_depth, stop, device_memory_request, planning,
               scribble_freed_memory] = options;
  // The trainer fills in micro batches, each parameter's numbers, and the
  // engine's seed.
  const auto& [rule, gradient_clipping, micro_batches, skips_not_finite,
               decay_by_id, lr_factor_by_id, optimizer_seed] = optimizer;
  Json memory_settings = MemorySettings(memory);
  memory_settings["activation_checkpointing"] =
      kActivationCheckpointings[static_cast<int>(activation_checkpointing)];
  Json parameters = Json::object();
  for (const auto& parameter : engine.parameters()) {
    parameters[parameter->name] = ParameterSettings(
        parameter->id.value, parameter->elements(), parameter->trainable,
        weight_decay(*parameter), lr_factor(*parameter));
  }
  Json settings = {
      {"shape", ShapeSettings(shape)},
      {"other_lengths", other_lengths},
      {"eval_batch", eval_batch},
      {"eval_length", eval_length},
      {"seed", engine.seed()},
      {"type", DTypeName(engine.dtype())},
      {"optimizer", OptimizerSettings(*rule)},
      {"gradient_clipping", gradient_clipping},
      {"skips_not_finite", skips_not_finite},
      {"max_skipped_steps", max_skipped_steps},
      {"parameters", std::move(parameters)},
      {"loss_scale", LossScaleSettings(loss_scale)},
      {"memory", std::move(memory_settings)},
      {"device",
       {{"type", gpu_sizes == nullptr ? "host" : "cuda"},
        {"bus_bytes_per_s", bus_bytes_per_s}}},
  };
  settings.update(PlanningSettings(planning));
  return SettingsOf(settings);
}

}  // namespace castor
