#include "run/config/config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/annotate.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "run/config/config_names.h"
#include "run/config/config_text.h"
#include "run/config/config_values.h"
#include "run/config/foreign/colossal.h"
#include "run/config/foreign/deepspeed.h"
#include "run/config/memory_settings.h"
#include "run/config/other_names.h"
#include "run/config/overrides.h"
#include "run/config/parameter_groups.h"
#include "run/config/run_length.h"
#include "run/config/state_formats.h"
#include "run/optim/loss_scaler.h"

namespace castor {
namespace {

using config_names::kBestMetrics;
using config_names::kMissingGradients;
using config_names::kOnNonFinites;
using config_names::kOnSaveErrors;

constexpr int64_t kMaxConfigBytes = 1 << 20;
constexpr int64_t kMaxBatch = int64_t{1} << 40;
constexpr int64_t kMaxMicroBatch = 1 << 20;

void ReadCheckpoint(JsonReader reader, const std::string& base_dir,
                    CheckpointConfig* checkpoint) {
  ReadPath(reader, "dir", base_dir, &checkpoint->dir);
  if (reader.Has("dir") && checkpoint->dir.empty()) {
    reader.FailExpected("dir", "the name of a directory");
  }
  reader.Int("save_interval", &checkpoint->save_interval,
             {.min = 0, .max = kMaxSteps});
  reader.Int("keep", &checkpoint->keep, {.min = 1, .max = 1 << 20});
  reader.Bool("load_best", &checkpoint->load_best);
  ReadEnum(reader, "best_metric", kBestMetrics, &checkpoint->best_metric);
  ReadEnum(reader, "on_error", kOnSaveErrors, &checkpoint->on_error);
  reader.Bool("lock", &checkpoint->lock);
  reader.Int("keep_aside", &checkpoint->keep_aside, {.min = 1, .max = 1 << 20});
  reader.Double("lock_timeout_seconds", &checkpoint->lock_timeout_seconds,
                {.min = 0, .max = kMaxWaitSeconds});
  reader.RefuseUnknownKeys();
}

// `gradient_clipping` is the root's value, which stood there if `clips`.
void ReadOptimizer(JsonReader reader, bool clips, double* gradient_clipping,
                   OptimizerConfig* optimizer) {
  int type = 0;
  reader.Choice("type", OptimizerNames(), &type);
  const OptimizerRow& row = Optimizers()[type];
  const StateFormats formats = ReadStateFormats(reader, row);
  optimizer->weight_decay = row.weight_decay;
  JsonReader params = reader.Object("params");
  optimizer->lr_is_default = !params.Has("lr");
  params.Double("lr", &optimizer->lr, kRateRange);
  params.Double("weight_decay", &optimizer->weight_decay, kRateRange);
  double max_grad_norm = *gradient_clipping;
  params.Double("max_grad_norm", &max_grad_norm, {.min = 0});
  if (clips && max_grad_norm != *gradient_clipping) {
    params.Fail("max_grad_norm",
                absl::StrCat(max_grad_norm, " is not gradient_clipping (",
                             *gradient_clipping,
                             "): these are two names of one setting, give one"),
                {"gradient_clipping"});
  }
  *gradient_clipping = max_grad_norm;
  if (!reader.Failed("type")) {
    optimizer->rule = row.read(params, formats);
    if (optimizer->rule->makes_rate()) {
      if (!optimizer->lr_is_default && optimizer->lr != 1) {
        params.Fail("lr",
                    "goes with relative_step false: a relative step is a rate "
                    "of its own, of which lr could only be a factor, 1",
                    {params.PathOf("relative_step")});
      }
      optimizer->lr = 1;
      optimizer->lr_is_default = false;
    }
    params.RefuseUnknownKeys();
  }
  reader.Strings("no_decay", &optimizer->no_decay);
  if (!params.Failed("lr")) ReadParameterGroups(reader, optimizer);
  reader.RefuseUnknownKeys();
}

void ReadPrecision(JsonReader bf16, JsonReader fp16, Config* config) {
  bf16.Bool("enabled", &config->bf16.enabled);
  bf16.RefuseUnknownKeys();
  fp16.Bool("enabled", &config->fp16.enabled);
  fp16.Double("loss_scale", &config->fp16.loss_scale,
              {.min = 0, .max = kMaxLossScale});
  fp16.Int("initial_scale_power", &config->fp16.initial_scale_power,
           {.min = 0, .max = 100});
  fp16.Int("loss_scale_window", &config->fp16.loss_scale_window,
           {.min = 1, .max = kMaxSteps});
  fp16.Int("hysteresis", &config->fp16.hysteresis,
           {.min = 1, .max = kMaxSteps});
  fp16.Double("min_loss_scale", &config->fp16.min_loss_scale, {.min = 0});
  fp16.RefuseUnknownKeys();
  if (!config->fp16.enabled) return;
  if (config->fp16.loss_scale > 0 && config->fp16.loss_scale < kMinLossScale) {
    fp16.Fail("loss_scale", "must be 0 (a dynamic scale) or from 2^-100 on");
  }
  const double initial =
      std::ldexp(1.0, static_cast<int>(config->fp16.initial_scale_power));
  if (config->bf16.enabled) {
    fp16.Fail("enabled", "cannot be true beside bf16.enabled: choose one",
              {bf16.PathOf("enabled")});
  }
  if (config->fp16.loss_scale > 0) return;  // and no other key has a meaning
  if (config->fp16.min_loss_scale < kMinLossScale) {
    fp16.Fail("min_loss_scale", "must be more than 0 (the default is 1)");
  }
  if (config->fp16.min_loss_scale > initial) {
    fp16.Fail("min_loss_scale",
              absl::StrCat(config->fp16.min_loss_scale,
                           " is more than the scale to begin with, 2^",
                           fp16.PathOf("initial_scale_power"), " = ", initial),
              {fp16.PathOf("initial_scale_power")});
  }
}

void ReadNetwork(JsonReader reader, NetworkConfig* network) {
  reader.Double("timeout_seconds", &network->timeout_seconds,
                {.min = 0.1, .max = 1e6});
  reader.Double("start_seconds", &network->start_seconds,
                {.min = 0.1, .max = 1e6});
  reader.RefuseUnknownKeys();
}

// `required`: whether one of the batch's sizes must be given; without them a
// micro batch counts as one sample.
void ReadBatch(JsonReader& root, int64_t world_size, bool required,
               Config* config) {
  int64_t& batch = config->train_batch_size;
  int64_t& micro = config->train_micro_batch_size_per_gpu;
  int64_t& accumulation = config->gradient_accumulation_steps;
  root.Int("train_batch_size", &batch, {.min = 1, .max = kMaxBatch});
  root.Int("train_micro_batch_size_per_gpu", &micro,
           {.min = 1, .max = kMaxMicroBatch});
  root.Int("gradient_accumulation_steps", &accumulation,
           {.min = 1, .max = kMaxMicroBatch});
  const std::string rule = absl::StrCat(
      " (the rule: train_batch_size = train_micro_batch_size_per_gpu x "
      "gradient_accumulation_steps x world size ",
      world_size, ")");
  const std::vector<std::string> others = {"train_micro_batch_size_per_gpu",
                                           "gradient_accumulation_steps"};
  const auto fail = [&](absl::string_view why) {
    root.Fail("train_batch_size", absl::StrCat(why, rule), others);
  };
  if (batch == 0 && micro == 0 && !required) micro = 1;
  if (batch == 0 && micro == 0) {
    return root.FailMissing(
        "train_batch_size",
        absl::StrCat("is required, unless train_micro_batch_size_per_gpu is "
                     "given",
                     rule),
        others);
  }
  if (accumulation == 0 && (batch == 0 || micro == 0)) accumulation = 1;
  const int64_t known = world_size * (micro == 0 ? 1 : micro) *
                        (accumulation == 0 ? 1 : accumulation);
  if (batch == 0) batch = known;
  const int64_t rest = batch / known;
  const bool divides = rest >= 1 && batch % known == 0;
  const bool both = micro != 0 && accumulation != 0;
  if (both ? batch != known : !divides) {
    return fail(absl::StrCat(
        batch, both ? " is not " : " is no multiple of ", known, ", which ",
        micro == 0 ? "" : absl::StrCat("micro batch ", micro, " x "),
        accumulation == 0 ? ""
                          : absl::StrCat("accumulation ", accumulation, " x "),
        "world size ", world_size, " make",
        both && world_size > 1
            ? ": leave one of the three out, and it is inferred"
            : ""));
  }
  if (micro == 0) micro = rest;
  if (accumulation == 0) accumulation = rest;
  if (micro > kMaxMicroBatch || accumulation > kMaxMicroBatch) {
    fail(absl::StrCat(batch, " makes micro batches of ", micro, " in ",
                      accumulation, " accumulation steps: too many"));
  }
}

// `key` receives the key to which the message belongs.
absl::Status FitToModel(Config* config, std::string* key) {
  const Architecture& model = *config->model.architecture;
  int64_t& length = config->data.sequence_length;
  if (length == 0) length = model.usual_positions();
  if (length > model.positions()) {
    *key = "data.sequence_length";
    return absl::InvalidArgumentError(
        absl::StrCat(length, " is more than the model's ",
                     model.positions_key(), " (", model.positions(), ")"));
  }
  // The largest tensors' elements must be countable with room to spare.
  const double tokens =
      static_cast<double>(config->train_micro_batch_size_per_gpu) *
      static_cast<double>(length);
  if (tokens * model.elements_per_token() > 0x1p56) {
    *key = "train_micro_batch_size_per_gpu";
    return absl::InvalidArgumentError(absl::StrCat(
        config->train_micro_batch_size_per_gpu, " samples of ", length,
        " tokens are more than can be counted for a model of this size"));
  }
  return absl::OkStatus();
}

// Checks rules that span several sections.
void CheckTogether(JsonReader& root, Config* config) {
  if (config->model.architecture != nullptr) {
    std::string key;
    const absl::Status fits = FitToModel(config, &key);
    if (!fits.ok()) {
      std::vector<std::string> concerned = {
          "model",
          absl::StrCat("model.", config->model.architecture->positions_key())};
      if (key != "data.sequence_length") {
        concerned.insert(concerned.end(),
                         {"data.sequence_length", "train_batch_size",
                          "gradient_accumulation_steps"});
      }
      root.Fail(key, fits.message(), std::move(concerned));
    }
  }
}

// Returns the object at one of the document's keys. Where people give a plain
// value in its place, the error shows an example.
JsonReader ObjectLike(JsonReader& root, absl::string_view key) {
  static constexpr std::pair<absl::string_view, absl::string_view> kExamples[] =
      {{"bf16", R"({"enabled": true})"},
       {"fp16", R"({"enabled": true})"},
       {"device", R"({"type": "cuda"})"},
       {"memory", R"({"device_memory": "8GiB"})"},
       {"optimizer", R"({"type": "AdamW"})"},
       {"checkpoint", R"({"dir": "out"}, or false)"},
       {"model", R"({"pretrained": "DIR"})"},
       {"data", R"({"train": "text.jsonl"})"}};
  if (const Json* value = root.Raw(key);
      value != nullptr && !value->is_object()) {
    for (const auto& [name, example] : kExamples) {
      if (name != key) continue;
      root.FailExpected(key, absl::StrCat("an object, like ", example));
    }
  }
  return root.Object(key);
}

// Is called after gradient_clipping and fp16 are read.
void ReadOnNonFinite(JsonReader& root, Config* config) {
  ReadEnum(root, "on_nonfinite", kOnNonFinites, &config->on_nonfinite);
  root.Int("max_skipped_steps", &config->max_skipped_steps,
           {.min = 1, .max = kMaxSteps});
  root.Bool("on_nonfinite_undo", &config->on_nonfinite_undo);
  const bool skips = config->on_nonfinite == OnNonFinite::kSkip;
  if (config->fp16.enabled &&
      (root.Has("on_nonfinite") || root.Has("on_nonfinite_undo"))) {
    root.Fail(root.Has("on_nonfinite") ? "on_nonfinite" : "on_nonfinite_undo",
              "has no meaning beside fp16.enabled, whose loss scale skips such "
              "steps: leave it out",
              {"fp16.enabled"});
  } else if (skips && !config->undoes_nonfinite()) {
    root.Fail("on_nonfinite",
              "\"skip\" wants gradient_clipping, or \"on_nonfinite_undo\": "
              "true: without them a step's updates begin before its last "
              "gradient is known",
              {"gradient_clipping", "on_nonfinite_undo"});
  }
  if (root.Has("max_skipped_steps") && !skips) {
    root.Fail("max_skipped_steps",
              "has a meaning only beside \"on_nonfinite\": \"skip\": add "
              "that, or leave it out",
              {"on_nonfinite"});
  }
}

// The keys that every training run has, whoever has the model. ReadBatch is
// called before it.
void ReadTraining(JsonReader& root, const std::string& base_dir,
                  Config* config) {
  root.Int("seed", &config->seed, {.min = 0});
  root.Double("gradient_clipping", &config->gradient_clipping, {.min = 0});
  ReadOptimizer(ObjectLike(root, "optimizer"), root.Has("gradient_clipping"),
                &config->gradient_clipping, &config->optimizer);
  ReadSchedule(root, config);
  ReadPrecision(ObjectLike(root, "bf16"), ObjectLike(root, "fp16"), config);
  CheckMasters(root, config->optimizer.rule->formats(), config->dtype());
  ReadOnNonFinite(root, config);
  ReadDevice(ObjectLike(root, "device"), base_dir, &config->device);
  ReadMemory(ObjectLike(root, "memory"), &config->memory);
  CheckFollowing(root, *config);
  ReadNetwork(root.Object("network"), &config->network);
}

void ReadConfig(const ModelReader& models, JsonReader& root,
                const std::string& base_dir, int world_size, Config* config) {
  root.Require("model");
  JsonReader model = ObjectLike(root, "model");
  models.Read(model, &config->model);
  if (!config->model.directory().empty()) {
    ReadPath(model, config->model.directory_key(), base_dir,
             config->model.pretrained.empty() ? &config->model.from_config
                                              : &config->model.pretrained);
  }
  if (!model.Failed("type")) model.RefuseUnknownKeys();
  root.Require("data");
  ReadData(ObjectLike(root, "data"), base_dir, &config->data);
  ReadLength(root, config);
  root.Int("eval_batches", &config->eval_batches, {.min = 1, .max = 1 << 20});
  if (const Json* value = root.Raw("checkpoint");
      value != nullptr && *value == false) {
    config->checkpoint.wanted = false;
  } else {
    ReadCheckpoint(ObjectLike(root, "checkpoint"), base_dir,
                   &config->checkpoint);
  }
  ReadBatch(root, world_size, /*required=*/true, config);
  if (!config->model.pretrained.empty()) {
    config->optimizer.lr = kDefaultTunedRate;
  }
  ReadTraining(root, base_dir, config);
  root.Int("steps_per_print", &config->steps_per_print,
           {.min = 1, .max = kMaxSteps});
  CheckTogether(root, config);
  ReadEvaluation(root, config);
  root.RefuseUnknownKeys();
}

// Refuses the keys whose objects a client of Castor brings itself.
void RefuseClients(JsonReader& root) {
  for (const absl::string_view key : KeysNoClientHas()) {
    if (root.Raw(key) != nullptr) {
      root.Fail(key,
                "belongs to castor train; the program that trains its own "
                "model has it: leave it out");
    }
  }
}

}  // namespace

bool operator==(const OptimizerConfig& a, const OptimizerConfig& b) {
  return a.rule->name() == b.rule->name() &&
         a.rule->formats() == b.rule->formats() &&
         a.rule->Params() == b.rule->Params() && a.lr == b.lr &&
         a.weight_decay == b.weight_decay && a.no_decay == b.no_decay &&
         a.groups == b.groups;
}

absl::string_view MetricName(BestMetric metric) {
  return kBestMetrics[static_cast<int>(metric)];
}

absl::Span<const absl::string_view> KeysNoClientHas() {
  static constexpr absl::string_view kKeys[] = {"model",
                                                "data",
                                                "num_train_epochs",
                                                "eval_strategy",
                                                "eval_interval",
                                                "eval_batches",
                                                "early_stopping_patience",
                                                "early_stopping_threshold",
                                                "checkpoint",
                                                "steps_per_print"};
  return kKeys;
}

LossScaleOptions Fp16Config::LossScale() const {
  const bool dynamic = loss_scale == 0;
  return {.dynamic = dynamic,
          .initial =
              dynamic ? std::ldexp(1.0, static_cast<int>(initial_scale_power))
                      : loss_scale,
          .window = loss_scale_window,
          .hysteresis = hysteresis,
          .minimum = min_loss_scale};
}

int ThreadsOn(DeviceType type, int processors) {
  constexpr int kIssuing = 3;
  const int issuing = type == DeviceType::kCuda ? kIssuing : 0;
  return std::max(1, processors - issuing);
}

int ThreadsOf(const DeviceConfig& device) {
  return device.threads == 0 ? ThreadsOn(device.type, AvailableProcessors())
                             : static_cast<int>(device.threads);
}

absl::Status FitToModel(Config* config) {
  std::string key;
  const absl::Status status = FitToModel(config, &key);
  return Annotate(key, status);
}

namespace {

// The text as a Config, by `read`.
absl::StatusOr<Config> ReadText(
    DeepSpeedDoor door, absl::string_view text,
    absl::Span<const std::string> overrides, absl::string_view source,
    absl::FunctionRef<void(JsonReader& root, Config* config)> read) {
  absl::StatusOr<Json> document = ParseConfigText(text, source);
  CASTOR_RETURN_IF_ERROR(document.status());
  JsonReport report(std::string(source), OtherNames());
  if (document->is_object()) {
    ApplyOverrides(overrides, &*document, &report);
  }
  Config config;
  config.notes.lines = TakeColossal(&*document, &report);
  for (std::string& note : TakeDeepSpeed(door, &*document, &report).notes) {
    config.notes.lines.push_back(std::move(note));
  }
  JsonReader root(*document, report);
  read(root, &config);
  CASTOR_RETURN_IF_ERROR(report.status());
  return config;
}

}  // namespace

absl::StatusOr<Config> ParseConfig(const ModelReader& models,
                                   absl::string_view text,
                                   const std::string& base_dir,
                                   absl::Span<const std::string> overrides,
                                   int world_size, absl::string_view source) {
  if (world_size < 1 || world_size > (1 << 20)) {
    return absl::InvalidArgumentError(
        absl::StrCat("world size ", world_size, " is out of range"));
  }
  return ReadText(DeepSpeedDoor::kTrain, text, overrides, source,
                  [&](JsonReader& root, Config* config) {
                    ReadConfig(models, root, base_dir, world_size, config);
                  });
}

absl::StatusOr<Config> ParseClientConfig(absl::string_view text,
                                         absl::string_view source,
                                         int world_size) {
  return ReadText(DeepSpeedDoor::kClient, text, /*overrides=*/{}, source,
                  [=](JsonReader& root, Config* config) {
                    RefuseClients(root);
                    ReadBatch(root, world_size, /*required=*/false, config);
                    root.Int("steps", &config->steps,
                             {.min = 1, .max = kMaxSteps});
                    ReadTraining(root, /*base_dir=*/"", config);
                    RefuseFollowing(root, *config);
                    ReadEnum(root, "missing_gradients", kMissingGradients,
                             &config->missing_gradients);
                    if (config->memory.activation_checkpointing !=
                        ActivationCheckpointing::kNone) {
                      root.Fail("memory.activation_checkpointing",
                                "a client's activations are its own; use its "
                                "checkpointing");
                    }
                    root.RefuseUnknownKeys();
                  });
}

absl::StatusOr<Config> LoadConfig(const ModelReader& models,
                                  const std::string& path,
                                  absl::Span<const std::string> overrides,
                                  int world_size) {
  std::error_code error;
  const std::filesystem::path absolute =
      std::filesystem::absolute(std::filesystem::path(path), error);
  if (error || !std::filesystem::is_regular_file(absolute, error)) {
    const bool exists = std::filesystem::exists(absolute, error);
    return absl::NotFoundError(
        absl::StrCat("config file \"", path, "\" ",
                     exists ? "is no regular file" : "does not exist"));
  }
  const absl::StatusOr<std::string> text =
      ReadSmallFile(absolute.string(), kMaxConfigBytes);
  CASTOR_RETURN_IF_ERROR(Annotate("config file", text.status()));
  CASTOR_ASSIGN_OR_RETURN(
      Config config, ParseConfig(models, *text, absolute.parent_path().string(),
                                 overrides, world_size, path));
  if (config.checkpoint.wanted && config.checkpoint.dir.empty()) {
    config.checkpoint.dir = DefaultCheckpointDir(path);
  }
  return config;
}

std::string DefaultCheckpointDir(const std::string& config_path) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(config_path, error);
  if (path.extension() == ".json") path.replace_extension();
  return absl::StrCat(path.lexically_normal().string(), ".castor");
}

}  // namespace castor
