#include "runtime/config/other_names.h"

namespace castor {

absl::Span<const OtherName> OtherNames() {
  static constexpr OtherName kNames[] = {
      {"learning_rate", "optimizer.params.lr"},
      {"adam_beta1", "optimizer.params.betas"},
      {"adam_beta2", "optimizer.params.betas"},
      {"adam_epsilon", "optimizer.params.eps"},
      {"optim", "optimizer.type"},
      {"lr_scheduler_type", "scheduler.type"},
      {"warmup_steps", "scheduler.params.warmup_num_steps"},
      {"warmup_ratio", "scheduler.params.warmup_num_steps"},
      {"num_train_epochs", "steps"},
      {"epochs", "steps"},
      {"max_steps", "steps"},
      {"train_steps", "steps"},
      {"num_steps", "steps"},
      {"batch_size", "train_batch_size"},
      {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"},
      {"micro_batch_size", "train_micro_batch_size_per_gpu"},
      {"max_grad_norm", "gradient_clipping"},
      {"logging_steps", "steps_per_print"},
      {"eval_steps", "eval_interval"},
      {"output_dir", "checkpoint.dir"},
      {"save_steps", "checkpoint.save_interval"},
      {"save_total_limit", "checkpoint.keep"},
      {"model_name_or_path", "model.pretrained"},
      {"tokenizer_name", "data.tokenizer"},
      {"dataset", "data.train"},
      {"train_file", "data.train"},
      {"validation_file", "data.validation"},
      {"block_size", "data.sequence_length"},
      {"max_length", "data.sequence_length"},
      {"max_seq_length", "data.sequence_length"},
      {"seq_length", "data.sequence_length"},
      {"gradient_checkpointing", "memory.activation_checkpointing"},
      {"zero_optimization", "memory.placement_policy"},
      {"offload_optimizer", "memory.placement_policy"},
      {"offload_param", "memory.placement_policy"},
      {"torch_dtype", "bf16.enabled"},
      {"dtype", "bf16.enabled"},
      {"gpu_memory", "memory.device_memory"},
      {"cpu_memory", "memory.host_memory"},
  };
  return kNames;
}

}  // namespace castor
