#include "client/interface/client_config.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/json_report.h"
#include "base/status_macros.h"
#include "client/interface/client_status.h"
#include "device/topology/memory_limits.h"
#include "nlohmann/json.hpp"
#include "run/config/config_text.h"
#include "run/config/foreign/colossal.h"
#include "run/config/foreign/deepspeed.h"
#include "run/config/parameter_groups.h"
#include "run/first_budget.h"
#include "run/gpu.h"
#include "run/optim/lr_schedule.h"

namespace castor {

std::string PolicyOf(const Config& config) {
  return std::string(config.memory.placement_policy->name);
}

absl::Status CheckPlace(const Config& config, const castor_place* place) {
  const bool on_gpu = config.device.type == DeviceType::kCuda;
  if (on_gpu == (place != nullptr)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      on_gpu ? "config: device.type: \"cuda\", and this client's operators run "
               "on the host; leave it out"
             : "config: device.type: this client's operators run on a GPU; "
               "give \"cuda\"");
}

namespace {

// Returns an empty list for a vector. A parameter of no elements is refused
// later, with the layout.
absl::StatusOr<std::vector<int64_t>> ShapeOf(
    const castor_parameter& parameter) {
  std::vector<int64_t> shape;
  if (parameter.shape == nullptr || parameter.elements < 1) return shape;
  // The elements divided by the sizes so far; 0: they do not divide.
  int64_t left = parameter.dimensions < 0 ? 0 : parameter.elements;
  for (int i = 0; i < parameter.dimensions && left > 0; ++i) {
    const int64_t size = parameter.shape[i];
    left = size >= 1 && left % size == 0 ? left / size : 0;
    shape.push_back(size);
  }
  if (left == 1) return shape;
  return absl::InvalidArgumentError(
      absl::StrCat("parameter \"", parameter.name, "\" has ",
                   parameter.elements, " elements, which its shape of ",
                   parameter.dimensions, " dimensions does not have in all"));
}

}  // namespace

absl::StatusOr<Asked> ReadAsked(const char* config_json,
                                const castor_parameter* parameters,
                                int64_t count, const castor_place* place,
                                RankOptions ranks, int local_size) {
  auto parsed = ParseClientConfig(config_json, "config", ranks.world_size);
  if (!parsed.ok()) return parsed.status();
  Asked asked;
  const Config& config = asked.config = *std::move(parsed);
  const MemoryConfig& memory = config.memory;
  // Ranks of one machine share its cores.
  const int share = config.device.threads > 0 ? 1 : std::max(1, local_size);
  const int threads = std::max(1, ThreadsOf(config.device) / share);
  asked.options = {
      .dtype = config.dtype(),
      .loss_scale = config.fp16.LossScale(),
      .rule = config.optimizer.rule,
      .seed = static_cast<uint64_t>(config.seed),
      .gradient_clipping = config.gradient_clipping,
      .undoes_not_finite = config.undoes_nonfinite(),
      .max_skipped_steps = config.nonfinite_steps_to_end(),
      .micro_batches = config.gradient_accumulation_steps,
      .zeros_for_missing_gradients =
          config.missing_gradients == MissingGradients::kZero,
      .learning_rate =
          [scheduler = config.scheduler, lr = config.optimizer.lr](
              int64_t step) { return LearningRate(scheduler, lr, step); },
      .memory = {.policy = memory.placement_policy,
                 .device_bytes = memory.device_memory,
                 .host_bytes = memory.host_memory,
                 .pinned_bytes = memory.pinned_memory,
                 .machine_share_bytes =
                     local_size > 1 ? PhysicalMemoryBytes() / local_size : 0,
                 .chunk_bytes = memory.chunk_size,
                 .gpu_margin_mem_ratio = memory.gpu_margin_mem_ratio,
                 .warmup_steps = memory.warmup_steps,
                 .prefetch = memory.prefetch},
      .bus_bytes_per_s = config.device.bus_gbps * 1e9,
      .threads = threads,
      // For tests: what was freed and is read shows. Without a budget, freed
      // memory is all that the machine has.
      .scribble_freed_memory = std::getenv("CASTOR_SCRIBBLE") != nullptr &&
                               memory.device_memory < kUnlimitedBytes,
      .ranks = std::move(ranks),
      .join_meetings = {}};
  if (place != nullptr) {
    auto gpu = FindGpu(place->gpu, kUpdatesAlone);
    if (!gpu.ok()) {
      return Annotate("config: device.type: \"cuda\"", gpu.status());
    }
    asked.options.memory.device_bytes =
        FirstBudget(MemoryOf(gpu->memory, asked.options.ranks.world_size),
                    memory.device_memory, /*follows=*/false);
    asked.options.memory.device_has_own_memory = true;
    asked.options.gpu = {.open = OpenerOf(*gpu, threads, place->stream),
                         .stream = place->stream,
                         .order = OrdererOf(*gpu)};
  }
  std::vector<std::string> names, trained;
  for (int64_t i = 0; i < count; ++i) {
    const castor_parameter& parameter = parameters[i];
    const UpdateNumbers numbers = NumbersOf(config.optimizer, parameter.name);
    CASTOR_ASSIGN_OR_RETURN(std::vector<int64_t> shape, ShapeOf(parameter));
    asked.parameters.push_back({.name = parameter.name,
                                .elements = parameter.elements,
                                .shape = std::move(shape),
                                .trainable = parameter.trainable != 0,
                                .weight_decay = parameter.weight_decay >= 0
                                                    ? parameter.weight_decay
                                                    : numbers.weight_decay,
                                .lr_factor = numbers.lr_factor});
    names.emplace_back(parameter.name);
    if (parameter.trainable != 0) trained.emplace_back(parameter.name);
  }
  if (!names.empty()) {
    CASTOR_RETURN_IF_ERROR(Annotate(
        "config",
        CheckPatterns("optimizer.no_decay", config.optimizer.no_decay, names)));
  }
  CASTOR_RETURN_IF_ERROR(
      Annotate("config", CheckParameterGroups(config.optimizer, trained)));
  return asked;
}

}  // namespace castor

namespace {

// A configuration's text as a document with Castor's keys, and what became of
// the keys of others.
struct PlainConfig {
  castor::Json document;
  std::optional<castor::DeepSpeedReading> deepspeed;  // if it was DeepSpeed's
  std::vector<std::string> notes;  // of another system's section in it
};

// Returns none, after castor_error is set, if the text is no configuration.
std::optional<PlainConfig> ReadPlain(const char* config_json) {
  auto document = castor::ParseConfigText(config_json, "config");
  if (!document.ok()) {
    castor::Tell(document.status());
    return std::nullopt;
  }
  if (!document->is_object()) {
    castor::Tell(absl::InvalidArgumentError("config: it is no JSON object"));
    return std::nullopt;
  }
  PlainConfig plain{
      .document = *std::move(document), .deepspeed = {}, .notes = {}};
  castor::JsonReport report("config");
  plain.notes = castor::TakeColossal(&plain.document, &report);
  constexpr castor::DeepSpeedDoor kDoor = castor::DeepSpeedDoor::kClient;
  if (castor::IsDeepSpeed(kDoor, plain.document)) {
    plain.deepspeed = castor::TakeDeepSpeed(kDoor, &plain.document, &report);
  }
  if (!report.status().ok()) {
    castor::Tell(report.status());
    return std::nullopt;
  }
  return plain;
}

}  // namespace

const char* castor_plain_config(const char* config_json) {
  thread_local std::string text;
  const std::optional<PlainConfig> plain = ReadPlain(config_json);
  if (!plain.has_value()) return nullptr;
  text = plain->document.dump();
  return text.c_str();
}

const char* castor_config_account(const char* config_json) {
  thread_local std::string account;
  const std::optional<PlainConfig> plain = ReadPlain(config_json);
  if (!plain.has_value()) return nullptr;
  castor::Json json = castor::Json::object();
  if (!plain->notes.empty()) json["notes"] = plain->notes;
  if (plain->deepspeed.has_value()) {
    json["autos"] = plain->deepspeed->autos;
    json["defaults"] = plain->deepspeed->defaults;
    for (const std::string& note : plain->deepspeed->notes) {
      json["notes"].push_back(note);
    }
  }
  account = json.dump();
  return account.c_str();
}

castor_status castor_config_rates(const char* config_json, int64_t first,
                                  int64_t count, double* rates) {
  const auto config = castor::ParseClientConfig(config_json);
  if (!config.ok()) return castor::Tell(config.status());
  for (int64_t i = 0; i < count; ++i) {
    rates[i] = castor::LearningRate(config->scheduler, config->optimizer.lr,
                                    first + i);
  }
  return CASTOR_OK;
}
