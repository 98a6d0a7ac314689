// Castor's configuration: one JSON file, comments allowed, checked whole before
// anything is allocated. Member names are the JSON keys; the comments here are
// their meaning and the initialisers their defaults. Where DeepSpeed or Hugging
// Face have a key of that name, its meaning is theirs unless said.
//
// A configuration of DeepSpeed's is read as foreign/deepspeed.h says.
//
// Everywhere: a key that is null counts as absent. Unknown keys, a key given
// twice, wrong types, values out of range and rules that do not hold are one
// InvalidArgument with an error in each line (base/error_list.h), which begins
// with the file, or the override that set the key, and the key's path.
#ifndef CASTOR_RUN_CONFIG_CONFIG_H_
#define CASTOR_RUN_CONFIG_CONFIG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/units.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/policy/policies.h"
#include "run/config/data_config.h"
#include "run/config/model_config.h"
#include "run/optim/loss_scaler.h"
#include "run/optim/lr_schedule.h"
#include "run/optim/optimizer.h"
#include "run/optim/optimizers.h"

namespace castor {

// Says how a run goes on when a checkpoint could not be written, at a second
// attempt either.
enum class OnSaveError : uint8_t {
  kStop,      // goes on, but ends when three in a row could not be written
  kContinue,  // goes on
};

// When a run evaluates, and whether it does.
enum class EvalStrategy : uint8_t { kNo, kSteps, kEpoch };

// The number of an evaluation that says how good a model is: less is better, of
// kAccuracy more.
enum class BestMetric : uint8_t { kLoss, kPerplexity, kAccuracy };
// Its name in configurations.
absl::string_view MetricName(BestMetric metric);

// Says how a run goes on after a step that was undone: see
// Config::on_nonfinite.
enum class OnNonFinite : uint8_t { kError, kSkip };

// Says how a parameter is updated in a step in which it has no gradient: see
// Config::missing_gradients.
enum class MissingGradients : uint8_t { kSkip, kZero };

struct CheckpointConfig {
  // "checkpoint": false is the whole section then: nothing is saved.
  bool wanted = true;
  // Absent: DefaultCheckpointDir of the file that LoadConfig reads; "" in a
  // configuration that is no file's, which saves nothing either.
  std::string dir;
  int64_t save_interval = 0;  // steps; 0: at the end only
  int64_t keep = 2;           // the newest ones; older ones are removed
  // If true, each step whose evaluation is the best so far is saved, its
  // checkpoint stays beside those, and the run ends with it. Hugging Face's
  // load_best_model_at_end, with metric_for_best_model.
  bool load_best = false;
  BestMetric best_metric = BestMetric::kLoss;
  // "stop" or "continue". A run whose last checkpoint cannot be written has
  // failed either way.
  OnSaveError on_error = OnSaveError::kStop;
  // If true, the run locks the directory, so that no other saves into it. Where
  // the file system has no locks, false says that the user sees to it.
  bool lock = true;
  // How many of the directories into which earlier runs' checkpoints were moved
  // (DIR.1, DIR.2, ...) stay, the newest ones. 0 or absent: all of them.
  int64_t keep_aside = 0;
  // How long to wait for a run that has the directory; 0: not at all.
  double lock_timeout_seconds = 0;

  friend bool operator==(const CheckpointConfig&,
                         const CheckpointConfig&) = default;
};

// The learning rate where none is given, for values from scratch and for those
// of model.pretrained, which 1e-3 spoils in a few steps.
inline constexpr double kDefaultRate = 1e-3;
inline constexpr double kDefaultTunedRate = 2e-5;

// Parameters that are updated with other numbers than the rest: an object of
// optimizer.groups. One of `lr` and `weight_decay` is there.
struct ParameterGroup {
  std::vector<std::string> params;  // patterns of names (name_pattern.h)
  std::optional<double> lr;         // absent: optimizer.params.lr
  std::optional<double> weight_decay;

  friend bool operator==(const ParameterGroup&,
                         const ParameterGroup&) = default;
};

struct OptimizerConfig {
  // "type", a row of run/optim/optimizers.h, and what of "params" only that
  // optimizer has. Never null.
  std::shared_ptr<const Optimizer> rule = DefaultOptimizer();
  // optimizer.params. "max_grad_norm", which DeepSpeed has there, is another
  // name of gradient_clipping: where both are given, they must be equal.
  double lr = kDefaultRate;  // absent for model.pretrained: kDefaultTunedRate
  // True if it was absent: a note says then what it came to.
  bool lr_is_default = false;
  double weight_decay = 0.01;  // absent: the row's
  // Patterns of names (name_pattern.h) of parameters that do not decay.
  std::vector<std::string> no_decay;
  // A parameter is in the first one of which a pattern matches its name. At
  // each step the rate of a group with `lr` stands to the schedule's as that
  // does to the `lr` above. See parameter_groups.h.
  std::vector<ParameterGroup> groups;

  friend bool operator==(const OptimizerConfig& a, const OptimizerConfig& b);
};

struct Bf16Config {
  bool enabled = false;  // neither bf16 nor fp16: fp32
  friend bool operator==(const Bf16Config&, const Bf16Config&) = default;
};

// See run/optim/loss_scaler.h. DeepSpeed's keys and defaults.
struct Fp16Config {
  bool enabled = false;
  double loss_scale = 0;             // 0: dynamic
  int64_t initial_scale_power = 16;  // of 2
  int64_t loss_scale_window = 1000;
  int64_t hysteresis = 2;
  double min_loss_scale = 1;

  LossScaleOptions LossScale() const;

  friend bool operator==(const Fp16Config&, const Fp16Config&) = default;
};

enum class DeviceType : uint8_t { kHost, kCuda };

struct DeviceConfig {
  // "cuda" is read here; whether the build and the machine have it is for
  // whoever opens the device.
  DeviceType type = DeviceType::kHost;
  // Threads of each rank. 0 is absent: see ThreadsOf; under several ranks, this
  // rank's share of its machine (device/topology/share.h).
  int64_t threads = 0;
  // Each direction of the emulated bus, in 1e9 bytes per second. 0 or absent:
  // as fast as memory is.
  double bus_gbps = 0;
  // All memory of each rank's emulated card, in bytes. 0 or absent: as much as
  // the machine has.
  int64_t memory = 0;
  // The folder of these cards' users (device/host/emulated_card.h): that of a
  // machine's rank n is its folder n. "" or absent: there are no others.
  std::string memory_dir;

  friend bool operator==(const DeviceConfig&, const DeviceConfig&) = default;
};

// A rank has so many threads on these processors, at least 1. Three processors
// are left on a GPU, where other threads issue work and see to its end
// meanwhile.
int ThreadsOn(DeviceType type, int processors);
// At least 1. Unless `threads` is set: ThreadsOn the processors that this
// process may run on.
int ThreadsOf(const DeviceConfig& device);

struct MemoryConfig {
  const PlacementPolicy* placement_policy = DefaultPolicy();
  // Hard caps, in bytes; 0 is a budget too (which admits nothing).
  // device_memory is each rank's; host_memory and pinned_memory are a
  // machine's, whose ranks divide them equally.
  int64_t device_memory = kUnlimitedBytes;
  // "device_memory": "follow": it becomes what others leave free of the device
  // (run/program/memory_follower.h), no less than the floor, at any step's
  // beginning. device_memory is unlimited then, until the device was looked at.
  bool follows_device = false;
  int64_t device_memory_floor = 0;
  int64_t host_memory = kUnlimitedBytes;
  int64_t pinned_memory = kUnlimitedBytes;  // "auto": what the model needs
  int64_t chunk_size = 0;  // bytes of payload; 0, absent or "auto": searched
  // The share of the device bytes that no moment needs which may hold optimizer
  // states, in [0, 1]. PatrickStar's and Colossal-AI's key.
  double gpu_margin_mem_ratio = 1.0;
  int64_t warmup_steps = 1;  // steps measured before the plan is settled
  bool prefetch = true;
  ActivationCheckpointing activation_checkpointing =
      ActivationCheckpointing::kNone;

  friend bool operator==(const MemoryConfig&, const MemoryConfig&) = default;
};

struct NetworkConfig {
  // How long a rank waits for another, in a collective, before the run ends as
  // hung. More than any one rank takes to evaluate, or to save its part.
  double timeout_seconds = 600;
  // How long ranks have to find each other when they start.
  double start_seconds = 60;

  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

// Messages about a configuration from whoever reads it, a line each. No two
// configurations differ in them.
struct ConfigNotes {
  std::vector<std::string> lines;

  friend bool operator==(const ConfigNotes&, const ConfigNotes&) {
    return true;
  }
};

struct Config {
  ModelConfig model;  // required
  DataConfig data;    // required
  // The updates, at least 1. Either they are given or, as Hugging Face's
  // num_train_epochs, so many passes over the data (0: not given). Then they
  // are 0 until SetSteps.
  int64_t steps = 0;
  double num_train_epochs = 0;
  int64_t seed = 1234;
  // By itself kSteps with eval_interval, else kNo. Needs validation data.
  EvalStrategy eval_strategy = EvalStrategy::kNo;
  int64_t eval_interval = 0;  // steps, of kSteps; else 0
  int64_t eval_batches = 8;   // micro batches per evaluation
  // A run ends after so many evaluations in a row of which none was better than
  // the best before it by more than the threshold; 0: it does not.
  int64_t early_stopping_patience = 0;
  double early_stopping_threshold = 0;
  CheckpointConfig checkpoint;
  // train_batch_size = train_micro_batch_size_per_gpu *
  // gradient_accumulation_steps * world size, in samples. Any one may be left
  // out; if two are, the accumulation steps are 1 (as in DeepSpeed). All three
  // are set here.
  int64_t train_batch_size = 0;
  int64_t train_micro_batch_size_per_gpu = 0;
  int64_t gradient_accumulation_steps = 0;
  double gradient_clipping = 0;  // largest global norm; 0: none
  // Says how the run goes on after a step with a gradient that is not finite,
  // where updates wait for all gradients: with gradient_clipping, or
  // `on_nonfinite_undo`, which has them wait. Such a step is undone; then the
  // run ends ("error"), or goes on ("skip") until max_skipped_steps in a row
  // were so. fp16 has a rule of its own, the loss scale's.
  OnNonFinite on_nonfinite = OnNonFinite::kError;
  int64_t max_skipped_steps = 20;
  bool on_nonfinite_undo = false;
  // Only for clients. A trainable parameter without a gradient in a step, on
  // any rank, is left alone ("skip"), as PyTorch's optimizers leave it: it does
  // not decay, its momentum does not move it, and the update does not count for
  // it. Or its gradient counts as zeros ("zero").
  MissingGradients missing_gradients = MissingGradients::kSkip;
  OptimizerConfig optimizer;
  // "scheduler"; "lr_scheduler_type" and "lr_scheduler_kwargs" are other names
  // of its type and params.
  Schedule scheduler;
  Bf16Config bf16;
  Fp16Config fp16;
  DeviceConfig device;
  MemoryConfig memory;
  NetworkConfig network;
  int64_t steps_per_print = 1;
  ConfigNotes notes;

  // The number of ranks that the batch is of.
  int64_t world_size() const {
    return train_batch_size /
           (train_micro_batch_size_per_gpu * gradient_accumulation_steps);
  }
  int64_t data_seed() const { return data.seed.value_or(seed); }
  bool evaluates() const { return eval_strategy != EvalStrategy::kNo; }
  // Returns whether a step with a gradient that is not finite is undone.
  bool undoes_nonfinite() const {
    return fp16.enabled || gradient_clipping > 0 || on_nonfinite_undo;
  }
  // So many such steps in a row end the run; not for fp16.
  int64_t nonfinite_steps_to_end() const {
    return on_nonfinite == OnNonFinite::kSkip ? max_skipped_steps : 1;
  }
  // The type of parameters and activations.
  DType dtype() const {
    if (fp16.enabled) return DType::kFloat16;
    return bf16.enabled ? DType::kBFloat16 : DType::kFloat32;
  }

  friend bool operator==(const Config&, const Config&) = default;
};

// Reads and checks the file. `overrides` are "a.b=VALUE": VALUE is taken as
// JSON where it is JSON, else as a string, and replaces or adds the key; lists
// are set whole. Paths in the file and in overrides are relative to the file's
// directory. NotFound: no such file. InvalidArgument: see above.
// `models` reads "model".
absl::StatusOr<Config> LoadConfig(const ModelReader& models,
                                  const std::string& path,
                                  absl::Span<const std::string> overrides = {},
                                  int world_size = 1);

// Where the run of the configuration at `config_path` saves when that does not
// say: beside it, run.castor for run.json.
std::string DefaultCheckpointDir(const std::string& config_path);

// The same from `text`, whose paths are relative to `base_dir` ("": as they
// are); `source` names it in messages.
absl::StatusOr<Config> ParseConfig(const ModelReader& models,
                                   absl::string_view text,
                                   const std::string& base_dir,
                                   absl::Span<const std::string> overrides = {},
                                   int world_size = 1,
                                   absl::string_view source = "config");

// The keys of a configuration that are castor train's alone: a client, whose
// program has its model, data, evaluations and checkpoints, has none of them.
absl::Span<const absl::string_view> KeysNoClientHas();

// The configuration of a program that brings its own model and data, and asks
// Castor for the rest: the same keys without model, data, checkpoint and what
// belongs to them. Here `steps` may be left out (0), and so may all sizes of
// the batch but gradient_accumulation_steps.
absl::StatusOr<Config> ParseClientConfig(absl::string_view text,
                                         absl::string_view source = "config",
                                         int world_size = 1);

// The rules between the model's sizes and the rest, for a model whose sizes
// were not in the configuration: sequence_length, where it is absent, becomes
// the model's positions. InvalidArgument: they do not hold.
absl::Status FitToModel(Config* config);

// Gives a run of num_train_epochs its steps, when the size of its data is
// known, and its schedule what follows from them. num_train_epochs is 0 then.
// InvalidArgument: the schedule's numbers contradict so many steps.
absl::Status SetSteps(int64_t steps, Config* config);

// Every effective value, as a config that ParseConfig reads back to the same
// Config.
std::string ConfigToJson(const Config& config);
// The same for ParseClientConfig, without the sizes of a batch, which a client
// does not need.
std::string ClientConfigToJson(const Config& config);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_CONFIG_H_
