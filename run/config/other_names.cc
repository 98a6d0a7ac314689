#include "run/config/other_names.h"

namespace castor {
namespace {

// Sentences that several keys have in common.
constexpr absl::string_view kPolicy =
    "\"auto\" plans what is on the device and what on the host";
constexpr absl::string_view kBfloat16Scale =
    "bf16 has the range of fp32, and its loss needs no scale";
constexpr absl::string_view kSums =
    "ranks' gradients are added in fp32, in one order, and need no scale";
constexpr absl::string_view kTrace =
    "castor train --trace FILE records where the time of each step goes";
constexpr absl::string_view kAdapters =
    "castor train has no adapters, which run under PyTorch (docs/pytorch.md)";
constexpr absl::string_view kRanks =
    "castor launch, mpirun or torchrun says how many ranks there are";
constexpr absl::string_view kAllSharded =
    "parameters, gradients and optimizer states are always sharded over ranks";
constexpr absl::string_view kOneKernel =
    "castor's optimizers have one kernel for each device";
constexpr absl::string_view kAside =
    "nothing is overwritten, since another run's checkpoints are moved aside";

}  // namespace

absl::Span<const OtherName> OtherNames() {
  static constexpr OtherName kNames[] = {
      // Optimizer.
      {"learning_rate", "optimizer.params.lr"},
      {"max_lr", "optimizer.params.lr"},
      {"adam_beta1", "optimizer.params.betas", "a list of both"},
      {"adam_beta2", "optimizer.params.betas", "a list of both"},
      {"beta1", "optimizer.params.betas", "a list of both"},
      {"beta2", "optimizer.params.betas", "a list of both"},
      {"adam_epsilon", "optimizer.params.eps"},
      {"optim", "optimizer.type"},
      {"torch_adam", "", kOneKernel},
      {"fused", "", kOneKernel},
      {"foreach", "", kOneKernel},
      {"max_grad_norm", "gradient_clipping"},
      {"clip_grad", "gradient_clipping"},
      {"clip_grad_norm", "gradient_clipping"},
      {"grad_clip", "gradient_clipping"},
      {"max_gradient_norm", "gradient_clipping"},
      // The learning rate.
      {"lr_scheduler", "scheduler.type"},
      {"lr_decay_style", "scheduler.type"},
      {"warmup_steps", "scheduler.params.warmup_num_steps"},
      {"num_warmup_steps", "scheduler.params.warmup_num_steps"},
      {"warmup_iters", "scheduler.params.warmup_num_steps"},
      {"lr_warmup_steps", "scheduler.params.warmup_num_steps"},
      {"warmup_ratio", "scheduler.params.warmup_ratio"},
      {"lr_decay_steps", "scheduler.params.total_num_steps"},
      {"lr_decay_iters", "scheduler.params.total_num_steps"},
      {"scheduler.params.total_steps", "scheduler.params.total_num_steps"},
      {"scheduler.params.num_training_steps",
       "scheduler.params.total_num_steps"},
      // How long, and how much at once.
      {"num_epochs", "num_train_epochs"},
      {"max_epochs", "num_train_epochs"},
      {"epochs", "num_train_epochs"},
      {"max_steps", "steps"},
      {"train_steps", "steps"},
      {"train_iters", "steps"},
      {"max_iters", "steps"},
      {"num_steps", "steps"},
      {"total_steps", "steps"},
      {"num_training_steps", "steps"},
      {"batch_size", "train_batch_size"},
      {"global_batch_size", "train_batch_size"},
      {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"},
      {"per_gpu_train_batch_size", "train_micro_batch_size_per_gpu"},
      {"per_device_eval_batch_size", "train_micro_batch_size_per_gpu",
       "an evaluation has micro batches of that size, too"},
      {"micro_batch_size", "train_micro_batch_size_per_gpu"},
      {"grad_accum_steps", "gradient_accumulation_steps"},
      {"random_seed", "seed"},
      {"manual_seed", "seed"},
      // What is said, and what is kept.
      {"logging_steps", "steps_per_print"},
      {"log_interval", "steps_per_print"},
      {"log_every_n_steps", "steps_per_print"},
      {"wall_clock_breakdown", "", kTrace},
      {"flops_profiler", "", kTrace},
      {"report_to", "",
       "castor train --tensorboard DIR writes for TensorBoard"},
      {"tensorboard", "",
       "castor train --tensorboard DIR writes for TensorBoard"},
      {"eval_steps", "eval_interval"},
      {"evaluation_strategy", "eval_strategy"},
      {"eval_iters", "eval_batches"},
      {"output_dir", "checkpoint.dir"},
      {"save_dir", "checkpoint.dir"},
      {"save_steps", "checkpoint.save_interval"},
      {"save_strategy", "checkpoint.save_interval",
       "in steps; 0: at the end alone"},
      {"save_total_limit", "checkpoint.keep"},
      {"load_best_model_at_end", "checkpoint.load_best"},
      {"metric_for_best_model", "checkpoint.best_metric",
       "\"loss\", \"perplexity\" or \"token_accuracy\""},
      {"overwrite_output_dir", "", kAside},
      {"resume_from_checkpoint", "",
       "castor train --resume CHECKPOINT goes on from one"},
      // The model.
      {"model_name_or_path", "model.pretrained"},
      {"pretrained_model_name_or_path", "model.pretrained"},
      {"base_model", "model.pretrained"},
      {"model_path", "model.pretrained"},
      {"lora_r", "", kAdapters},
      {"lora_rank", "", kAdapters},
      {"lora_alpha", "", kAdapters},
      {"peft", "", kAdapters},
      // The data.
      {"tokenizer_name", "data.tokenizer"},
      {"tokenizer_name_or_path", "data.tokenizer"},
      {"tokenizer_path", "data.tokenizer"},
      {"dataset", "data.train"},
      {"datasets", "data.train"},
      {"dataset_name", "data.train", "a file on this machine"},
      {"data_path", "data.train"},
      {"train_file", "data.train"},
      {"train_data", "data.train"},
      {"validation_file", "data.validation"},
      {"valid_data", "data.validation"},
      {"val_data", "data.validation"},
      {"val_set_size", "data.validation_fraction", "a share of the samples"},
      {"block_size", "data.sequence_length"},
      {"max_length", "data.sequence_length"},
      {"max_seq_length", "data.sequence_length"},
      {"max_seq_len", "data.sequence_length"},
      {"model_max_length", "data.sequence_length"},
      {"seq_length", "data.sequence_length"},
      {"seq_len", "data.sequence_length"},
      {"sequence_len", "data.sequence_length"},
      {"cutoff_len", "data.sequence_length"},
      {"context_length", "data.sequence_length"},
      {"num_workers", "", "castor has no processes that load data"},
      {"dataloader_num_workers", "", "castor has no processes that load data"},
      // Memory.
      {"gradient_checkpointing", "memory.activation_checkpointing"},
      {"checkpoint_activations", "memory.activation_checkpointing"},
      {"tensor_placement_policy", "memory.placement_policy",
       "\"cuda\", \"cpu\" or \"auto\""},
      {"zero_optimization", "memory.placement_policy", kPolicy},
      {"zero", "memory.placement_policy", kPolicy},
      {"offload_optimizer", "memory.placement_policy", kPolicy},
      {"offload_param", "memory.placement_policy", kPolicy},
      {"cpu_offload", "memory.placement_policy", kPolicy},
      {"zero_stage", "", kAllSharded},
      {"fsdp", "", kAllSharded},
      {"chunk_size_mb", "memory.chunk_size", "with a unit, like \"32MiB\""},
      {"search_range_mb", "memory.chunk_size",
       "\"auto\" searches for the one that wastes least"},
      {"min_chunk_size_mb", "memory.chunk_size",
       "\"auto\" searches for the one that wastes least"},
      {"gpu_memory", "memory.device_memory"},
      {"max_memory", "memory.device_memory"},
      {"cpu_memory", "memory.host_memory"},
      // Types of values.
      {"torch_dtype", "bf16.enabled"},
      {"dtype", "bf16.enabled"},
      {"precision", "bf16.enabled"},
      {"mixed_precision", "bf16.enabled"},
      {"amp", "bf16.enabled"},
      {"bf16.loss_scale", "", kBfloat16Scale},
      {"bf16.initial_scale_power", "", kBfloat16Scale},
      {"bf16.loss_scale_window", "", kBfloat16Scale},
      {"bf16.hysteresis", "", kBfloat16Scale},
      {"bf16.min_loss_scale", "", kBfloat16Scale},
      // Ranks.
      {"communication_data_type", "", kSums},
      {"prescale_gradients", "", kSums},
      {"gradient_predivide_factor", "", kSums},
      {"num_gpus", "", kRanks},
      {"world_size", "", kRanks},
      {"local_rank", "", kRanks},
      {"num_threads", "device.threads"},
      {"timeout", "network.timeout_seconds"},
      {"ddp_timeout", "network.timeout_seconds"},
  };
  return kNames;
}

}  // namespace castor
