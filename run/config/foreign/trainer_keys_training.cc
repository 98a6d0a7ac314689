#include "absl/strings/str_cat.h"
#include "run/config/foreign/conversions.h"
#include "run/config/foreign/foreign_key.h"
#include "run/config/foreign/foreign_sentences.h"
#include "run/config/foreign/trainer_keys.h"

namespace castor {
namespace {

using namespace conversions;        // NOLINT: the rows are made of them
using namespace foreign_sentences;  // NOLINT

// Sentences that several rows have.
constexpr absl::string_view kSaves =
    "a run saves at its end; checkpoint.save_interval is in steps";
constexpr absl::string_view kAside =
    "nothing is overwritten, since another run's checkpoints are moved aside";
constexpr absl::string_view kEvaluation =
    "an evaluation is the mean loss over the validation data";
constexpr absl::string_view kResume =
    "castor train --resume CHECKPOINT goes on from one";
constexpr absl::string_view kNoNoise = "embeddings have no noise";
constexpr absl::string_view kMicroBatches =
    "an evaluation has micro batches of that size, too";
constexpr absl::string_view kToTheBit =
    "runs are the same to the bit in any case";
constexpr absl::string_view kOrder =
    "samples come in an order that follows from data.seed";
constexpr absl::string_view kLastBatch =
    "the last batch of a pass is filled up with the first samples of the next "
    "one";

// A yes or no, in place of which another key has a value now.
void OldName(const ForeignKey& key, const Json& value,
             ForeignAccount& account) {
  if (IsOff(value)) return account.Ignore(kNothing);
  account.Lack(absl::StrCat("it is ", key.says, ": give that"));
}

constexpr ForeignKey kKeys[] = {
    // Optimizer.
    {"HALT", "learning_rate", "optimizer.params.lr", Same},
    {"T", "optimizer.lr", "optimizer.params.lr", Same},
    {"HAL", "weight_decay", "optimizer.params.weight_decay", TrainerDecay},
    {"T", "optimizer.weight_decay", "optimizer.params.weight_decay", Same},
    {"HAL", "adam_beta1", "optimizer.params.betas", Beta1, kBetas},
    {"HAL", "adam_beta2", "optimizer.params.betas", Beta2, kBetas},
    {"HAL", "adam_epsilon", "optimizer.params.eps", Same},
    {"T", "optimizer.betas", "optimizer.params.betas", Same},
    {"T", "optimizer.eps", "optimizer.params.eps", Same},
    {"T", "optimizer.momentum", "optimizer.params.momentum", Same},
    {"T", "optimizer.dampening", "optimizer.params.dampening", Same},
    {"T", "optimizer.nesterov", "optimizer.params.nesterov", Same},
    {"T", "optimizer.fused optimizer.foreach", "", Ignored, kOneKernel},
    {"T", "optimizer._component_", "optimizer.type", OptimizerName},
    {"HL", "optim", "optimizer.type", OptimizerName},
    {"A", "optimizer", "optimizer.type", OptimizerName},
    {"HAL", "optim_args optim_target_modules", "", Lacking,
     "its optimizers have the keys of docs/configuration.md"},
    {"HL", "adafactor", "", OldName, "an old name of optim: adafactor"},
    {"HAL", "max_grad_norm", "gradient_clipping", IfPositive},
    {"T", "clip_grad_norm", "gradient_clipping", IfPositive},
    {"T", "optimizer_in_bwd", "", Ignored,
     "updates begin before the backward pass ends where gradient_clipping "
     "allows it"},
    {"HAL", "label_smoothing_factor", "", Lacking, kMeanLoss},
    {"HAL", "neftune_noise_alpha", "", Lacking, kNoNoise},
    {"A", "noisy_embedding_alpha", "", Lacking, kNoNoise},
    // The learning rate.
    {"HL=", "lr_scheduler_type", "scheduler.type", ScheduleName},
    {"A", "lr_scheduler", "scheduler.type", ScheduleName},
    {"T", "lr_scheduler._component_", "scheduler.type", ScheduleName},
    {"T", "lr_scheduler.num_warmup_steps", "scheduler.params.warmup_num_steps",
     WarmupSteps},
    {"T", "lr_scheduler.num_cycles", "scheduler.params.num_cycles", Same},
    {"HAL=", "lr_scheduler_kwargs", "scheduler.params", ScheduleArguments},
    {"HAL", "warmup_steps", "scheduler.params.warmup_num_steps", WarmupSteps},
    {"HAL", "warmup_ratio", "scheduler.params.warmup_ratio", IfPositive},
    {"A", "cosine_min_lr_ratio cosine_constant_lr_ratio", "", Lacking,
     "\"cosine_with_min_lr\" has min_lr_rate"},
    {"A", "lr_quadratic_warmup", "", Lacking, "a warm-up rises on a line"},
    {"A", "lr_groups embedding_lr embedding_lr_scale loraplus_lr_ratio", "",
     Lacking, "optimizer.groups has patterns of names and their rates"},
    // The run's length, and the size of a batch.
    {"HL", "num_train_epochs", "num_train_epochs", IfPositive},
    {"A", "num_epochs", "num_train_epochs", IfPositive},
    {"T", "epochs", "num_train_epochs", IfPositive},
    {"HAL", "max_steps", "steps", IfPositive},
    {"T", "max_steps_per_epoch", "steps", StepsPerEpoch, "of each epoch"},
    {"HL", "per_device_train_batch_size", "train_micro_batch_size_per_gpu",
     Same},
    {"HL", "per_gpu_train_batch_size", "train_micro_batch_size_per_gpu",
     IfPositive},
    {"A", "micro_batch_size", "train_micro_batch_size_per_gpu", Same},
    {"A", "batch_size", "train_batch_size", Same},
    {"T", "batch_size", "train_micro_batch_size_per_gpu", Same},
    {"HALT", "gradient_accumulation_steps", "gradient_accumulation_steps",
     Same},
    {"HL", "per_device_eval_batch_size per_gpu_eval_batch_size",
     "train_micro_batch_size_per_gpu", Ignored, kMicroBatches},
    {"A", "eval_batch_size", "train_micro_batch_size_per_gpu", Ignored,
     kMicroBatches},
    {"T", "batch_size_val", "train_micro_batch_size_per_gpu", Ignored,
     kMicroBatches},
    {"HAL", "auto_find_batch_size", "", Ignored,
     "castor plan says what fits, and a run that does not is refused before it"
     " begins"},
    {"HALT", "seed", "seed", Same},
    {"HL", "data_seed", "data.seed", Same},
    {"HL", "full_determinism", "", Ignored, kToTheBit},
    {"T", "cudnn_deterministic_mode", "", Ignored, kToTheBit},
    {"HL", "do_train do_eval do_predict", "", Ignored,
     "castor train trains, castor evaluate tells a loss"},
    {"HL", "ignore_data_skip", "", Lacking,
     "a run that goes on takes the samples that come next"},
    {"HAL", "group_by_length", "", Lacking, kOrder},
    {"HL", "train_sampling_strategy", "", Sampling, kOrder},
    {"A", "curriculum_sampling", "", Lacking, kOrder},
    {"HL", "length_column_name", "", Ignored, "lengths are counted"},
    {"HAL", "dataloader_drop_last", "", Ignored, kLastBatch},
    {"A", "drop_last", "", Ignored, kLastBatch},
    // Logs and metrics, and files that are kept.
    {"HAL", "logging_steps", "steps_per_print", Steps},
    {"T", "log_every_n_steps", "steps_per_print", IfPositive},
    {"HL",
     "logging_strategy logging_nan_inf_filter log_level_replica "
     "log_on_each_node disable_tqdm include_num_input_tokens_seen "
     "skip_memory_metrics past_index project trackio_space_id",
     "", Ignored, kLog},
    {"HAL", "logging_first_step include_tokens_per_second debug", "", Ignored,
     kLog},
    {"HLT", "log_level", "", Ignored, kLog},
    {"A", "include_tkps strict", "", Ignored, kLog},
    {"T", "log_peak_memory_stats metric_logger", "", Ignored, kLog},
    {"T", "profiler", "", Ignored, kTrace},
    {"A", "profiler_steps profiler_steps_start", "", Ignored, kTrace},
    {"L", "plot_loss include_effective_tokens_per_second include_mfu", "",
     Ignored, kLog},
    {"HL", "report_to logging_dir run_name", "", Ignored, kTensorBoard},
    {"A",
     "use_tensorboard wandb_project wandb_entity wandb_watch wandb_name "
     "wandb_run_id wandb_log_model wandb_mode use_wandb mlflow_tracking_uri "
     "mlflow_experiment_name mlflow_run_name hf_mlflow_log_artifacts "
     "use_mlflow use_comet comet_project_name comet_workspace "
     "trackio_project_name",
     "", Ignored, kTensorBoard},
    {"AL", "swanlab_project use_swanlab", "", Ignored, kTensorBoard},
    {"L", "swanlab_run_name", "", Ignored, kTensorBoard},
    {"HAL", "eval_strategy evaluation_strategy", "eval_strategy", EvalStrategy},
    {"HAL", "eval_steps", "eval_interval", Steps},
    {"T", "run_val_every_n_steps", "eval_interval", IfPositive},
    {"A", "evals_per_epoch", "eval_interval", LeftToUser,
     "eval_interval is in steps; \"eval_strategy\": \"epoch\" evaluates once "
     "an epoch"},
    {"HL", "eval_on_start eval_delay", "", Lacking,
     "evaluations come after eval_interval steps"},
    {"HL",
     "prediction_loss_only eval_accumulation_steps eval_do_concat_batches "
     "eval_use_gather_object batch_eval_metrics include_inputs_for_metrics "
     "include_for_metrics label_names torch_empty_cache_steps jit_mode_eval "
     "bf16_full_eval fp16_full_eval",
     "", Ignored, kEvaluation},
    {"A",
     "eval_table_size eval_max_new_tokens eval_causal_lm_metrics "
     "do_causal_lm_eval eval_sample_packing do_bench_eval bench_dataset",
     "", Ignored, kEvaluation},
    {"HAL", "load_best_model_at_end", "checkpoint.load_best", Enabled},
    {"HAL", "metric_for_best_model", "checkpoint.best_metric", BestMetric},
    {"HAL", "greater_is_better", "", Ignored,
     "checkpoint.best_metric says which is better"},
    {"HAL", "early_stopping_patience", "early_stopping_patience", IfPositive},
    {"HL", "early_stopping_threshold", "early_stopping_threshold", IfPositive},
    {"L", "early_stopping_steps", "early_stopping_patience", IfPositive},
    {"HALT", "output_dir", "checkpoint.dir", Same},
    {"T", "checkpointer.output_dir", "", Ignored,
     "checkpoint.dir is output_dir"},
    {"HAL", "save_strategy", "checkpoint.save_interval", SaveStrategy,
     "in steps; 0: at the end alone"},
    {"HAL", "save_steps", "checkpoint.save_interval", Steps},
    {"T", "save_every_n_steps", "checkpoint.save_interval", IfPositive},
    {"A", "saves_per_epoch", "checkpoint.save_interval", LeftToUser, kSaves},
    {"HAL", "save_total_limit", "checkpoint.keep", Kept, kAll},
    {"T", "keep_last_n_checkpoints", "checkpoint.keep", Kept, kAll},
    {"HAL", "save_only_model", "", Ignored,
     "a checkpoint has all that a run needs to go on; castor export writes a "
     "model's files"},
    {"HAL", "save_safetensors", "", Always, "castor export writes safetensors"},
    {"HL",
     "save_on_each_node enable_jit_checkpoint "
     "restore_callback_states_from_checkpoint",
     "", Ignored, "all ranks write one checkpoint"},
    {"HL", "overwrite_output_dir", "", Ignored, kAside},
    {"HALT", "resume_from_checkpoint", "", Ignored, kResume},
    {"A", "auto_resume_from_checkpoints", "", Ignored, kResume},
    {"T",
     "checkpointer.recipe_checkpoint checkpointer.adapter_checkpoint "
     "enable_async_checkpointing",
     "", Ignored, kResume},
    {"HL",
     "push_to_hub hub_token hub_private_repo hub_always_push "
     "push_to_hub_model_id push_to_hub_organization push_to_hub_token",
     "", Ignored, kHub},
    {"HAL", "hub_model_id hub_strategy hub_revision", "", Ignored, kHub},
    {"A", "hf_use_auth_token push_dataset_to_hub", "", Ignored, kHub},
};

}  // namespace

absl::Span<const ForeignKey> TrainingKeys() { return kKeys; }

}  // namespace castor
