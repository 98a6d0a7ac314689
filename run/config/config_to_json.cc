#include <string>
#include <utility>

#include "nlohmann/json.hpp"
#include "run/config/config.h"
#include "run/config/config_names.h"
#include "run/config/parameter_groups.h"

namespace castor {
namespace {

using Ordered = OrderedJson;

template <typename Enum, size_t N>
std::string Name(const absl::string_view (&names)[N], Enum value) {
  return std::string(names[static_cast<int>(value)]);
}

Ordered Bytes(int64_t bytes) {
  return bytes >= kUnlimitedBytes ? Ordered("unlimited") : Ordered(bytes);
}

Ordered CheckpointJson(const CheckpointConfig& checkpoint) {
  if (!checkpoint.wanted) return false;
  Ordered json = Ordered::object();
  if (!checkpoint.dir.empty()) json["dir"] = checkpoint.dir;
  json["save_interval"] = checkpoint.save_interval;
  json["keep"] = checkpoint.keep;
  json["load_best"] = checkpoint.load_best;
  json["best_metric"] = std::string(MetricName(checkpoint.best_metric));
  json["on_error"] = Name(config_names::kOnSaveErrors, checkpoint.on_error);
  json["lock"] = checkpoint.lock;
  json["lock_timeout_seconds"] = checkpoint.lock_timeout_seconds;
  if (checkpoint.keep_aside > 0) json["keep_aside"] = checkpoint.keep_aside;
  return json;
}

Ordered OptimizerJson(const OptimizerConfig& optimizer) {
  Ordered params = {{"lr", optimizer.lr},
                    {"weight_decay", optimizer.weight_decay}};
  params.update(optimizer.rule->Params());
  Ordered json = {{"type", std::string(optimizer.rule->name())},
                  {"params", std::move(params)},
                  {"no_decay", optimizer.no_decay}};
  // Checkpoints that are older than these keys do not have them.
  const StateFormats formats = optimizer.rule->formats();
  if (formats != StateFormats()) {
    json["state_format"] = {
        {"master", std::string(MasterFormatName(formats.master))},
        {"moments", std::string(MomentFormatName(formats.moments))}};
  }
  if (!optimizer.groups.empty()) {
    json["groups"] = ParameterGroupsJson(optimizer.groups);
  }
  return json;
}

Ordered SchedulerJson(const Schedule& scheduler) {
  return {{"type", std::string(scheduler.row().name)},
          {"params", scheduler.Params()}};
}

Ordered DeviceJson(const DeviceConfig& device) {
  Ordered json = {{"type", Name(config_names::kDevices, device.type)},
                  {"threads", device.threads == 0 ? Ordered(nullptr)
                                                  : Ordered(device.threads)},
                  {"bus_gbps", device.bus_gbps}};
  // Checkpoints that are older than these keys do not have them.
  if (device.memory > 0) json["memory"] = device.memory;
  if (!device.memory_dir.empty()) json["memory_dir"] = device.memory_dir;
  return json;
}

Ordered MemoryJson(const MemoryConfig& memory) {
  Ordered device_memory = Bytes(memory.device_memory);
  if (memory.follows_device) device_memory = "follow";
  Ordered json = {
      {"placement_policy", std::string(memory.placement_policy->name)},
      {"device_memory", std::move(device_memory)},
      {"host_memory", Bytes(memory.host_memory)},
      {"pinned_memory", memory.pinned_memory >= kUnlimitedBytes
                            ? Ordered("auto")
                            : Ordered(memory.pinned_memory)},
      {"chunk_size",
       memory.chunk_size == 0 ? Ordered("auto") : Ordered(memory.chunk_size)},
      {"gpu_margin_mem_ratio", memory.gpu_margin_mem_ratio},
      {"warmup_steps", memory.warmup_steps},
      {"prefetch", memory.prefetch},
      {"activation_checkpointing",
       Name(kActivationCheckpointings, memory.activation_checkpointing)}};
  if (memory.device_memory_floor > 0) {
    json["device_memory_floor"] = memory.device_memory_floor;
  }
  return json;
}

// A path may hold bytes that are no UTF-8; JSON has no way to write them.
std::string Dump(const Ordered& json) {
  return json.dump(2, ' ', false, Ordered::error_handler_t::replace);
}

// Adds the keys of every training run, whoever has the model.
void AddTraining(const Config& config, Ordered* out) {
  Ordered& json = *out;
  json["gradient_accumulation_steps"] = config.gradient_accumulation_steps;
  json["gradient_clipping"] = config.gradient_clipping;
  if (!config.fp16.enabled) {
    json["on_nonfinite"] =
        Name(config_names::kOnNonFinites, config.on_nonfinite);
    json["on_nonfinite_undo"] = config.on_nonfinite_undo;
  }
  if (config.on_nonfinite == OnNonFinite::kSkip) {
    json["max_skipped_steps"] = config.max_skipped_steps;
  }
  json["optimizer"] = OptimizerJson(config.optimizer);
  json["scheduler"] = SchedulerJson(config.scheduler);
  json["bf16"] = {{"enabled", config.bf16.enabled}};
  json["fp16"] = {{"enabled", config.fp16.enabled},
                  {"loss_scale", config.fp16.loss_scale},
                  {"initial_scale_power", config.fp16.initial_scale_power},
                  {"loss_scale_window", config.fp16.loss_scale_window},
                  {"hysteresis", config.fp16.hysteresis},
                  {"min_loss_scale", config.fp16.min_loss_scale}};
  json["device"] = DeviceJson(config.device);
  json["memory"] = MemoryJson(config.memory);
  json["network"] = {{"timeout_seconds", config.network.timeout_seconds},
                     {"start_seconds", config.network.start_seconds}};
}

}  // namespace

std::string ClientConfigToJson(const Config& config) {
  Ordered json;
  if (config.steps > 0) json["steps"] = config.steps;
  json["seed"] = config.seed;
  json["missing_gradients"] =
      Name(config_names::kMissingGradients, config.missing_gradients);
  AddTraining(config, &json);
  return Dump(json);
}

std::string ConfigToJson(const Config& config) {
  Ordered json;
  json["model"] = config.model.ToJson();
  json["data"] = DataJson(config.data);
  if (config.steps > 0) {
    json["steps"] = config.steps;
  } else {
    json["num_train_epochs"] = config.num_train_epochs;
  }
  json["seed"] = config.seed;
  json["eval_strategy"] =
      Name(config_names::kEvalStrategies, config.eval_strategy);
  if (config.eval_interval > 0) json["eval_interval"] = config.eval_interval;
  json["eval_batches"] = config.eval_batches;
  if (config.early_stopping_patience > 0) {
    json["early_stopping_patience"] = config.early_stopping_patience;
    json["early_stopping_threshold"] = config.early_stopping_threshold;
  }
  json["checkpoint"] = CheckpointJson(config.checkpoint);
  json["train_batch_size"] = config.train_batch_size;
  json["train_micro_batch_size_per_gpu"] =
      config.train_micro_batch_size_per_gpu;
  AddTraining(config, &json);
  json["steps_per_print"] = config.steps_per_print;
  return Dump(json);
}

}  // namespace castor
