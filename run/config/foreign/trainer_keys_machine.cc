#include "run/config/foreign/conversions.h"
#include "run/config/foreign/foreign_key.h"
#include "run/config/foreign/foreign_sentences.h"
#include "run/config/foreign/trainer_keys.h"

namespace castor {
namespace {

using namespace conversions;        // NOLINT: the rows are made of them
using namespace foreign_sentences;  // NOLINT

// Sentences that several rows have.
constexpr absl::string_view kRanks =
    "castor launch, mpirun or torchrun says how many ranks there are";
constexpr absl::string_view kDeepSpeed =
    "its ZeRO is memory.placement_policy \"auto\"; give that file to castor "
    "import-config, too";
constexpr absl::string_view kBlocks = "whole blocks are computed again";
constexpr absl::string_view kBatches =
    "castor divides batches over ranks, not sequences or matrices";

constexpr ForeignKey kKeys[] = {
    // Memory.
    {"HAL", "gradient_checkpointing", "memory.activation_checkpointing",
     Checkpointing},
    {"T", "enable_activation_checkpointing", "memory.activation_checkpointing",
     Checkpointing},
    {"L", "disable_gradient_checkpointing", "memory.activation_checkpointing",
     NoCheckpointing},
    {"HAL", "gradient_checkpointing_kwargs", "", Ignored, kBlocks},
    {"T", "ac_mode ac_option", "", Ignored, kBlocks},
    {"T",
     "enable_activation_offloading activation_offloading_use_streams "
     "low_cpu_ram memory_efficient_fsdp_wrap fsdp_cpu_offload "
     "fsdp_reshard_after_forward fsdp_sharding_strategy",
     "", Ignored, kPlanned},
    {"A",
     "activation_offloading layer_offloading gpu_memory_limit "
     "low_cpu_mem_usage fsdp_version fsdp_final_state_dict_type",
     "", Ignored, kPlanned},
    {"HAL", "fsdp fsdp_config", "", Ignored, kPlanned},
    {"HL", "fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap", "",
     Ignored, kPlanned},
    {"HAL", "deepspeed", "", Ignored, kDeepSpeed},
    {"A", "max_memory", "memory.device_memory", Ignored,
     "without it all of the GPU's free memory"},
    // Types of values.
    {"HAL", "bf16", "bf16.enabled", Enabled},
    {"HAL", "fp16", "fp16.enabled", Enabled},
    {"A=", "bfloat16", "bf16.enabled", Enabled},
    {"A", "float16", "fp16.enabled", Enabled},
    {"L", "pure_bf16", "bf16.enabled", Enabled},
    {"L", "upcast_layernorm upcast_lmhead_output", "", Ignored, kAutocast},
    {"T", "dtype", "bf16.enabled", TypeName},
    {"HL", "dtype half_precision_backend fp16_backend fp16_opt_level", "",
     Ignored, kAutocast},
    // Ranks and devices.
    {"HAL",
     "local_rank ddp_find_unused_parameters ddp_bucket_cap_mb "
     "ddp_broadcast_buffers",
     "", Ignored, kRanks},
    {"HL",
     "ddp_backend ddp_static_graph tpu_num_cores tpu_metrics_debug "
     "mp_parameters ray_scope accelerator_config parallelism_config _n_gpu",
     "", Ignored, kRanks},
    {"A", "world_size ddp device_map", "", Ignored, kRanks},
    {"A=", "device", "", Ignored, kRanks},
    {"A", "sequence_parallel_degree context_parallel_size tensor_parallel_size",
     "", OneOnly, kBatches},
    {"T", "tensor_parallel_dim context_parallel_dim expert_parallel_degree", "",
     OneOnly, kBatches},
    {"T",
     "tensor_parallel_plan data_parallel_replicate_dim data_parallel_shard_dim",
     "", Ignored, kPlanned},
    {"L", "sequence_parallel_size cp_size", "", OneOnly, kBatches},
    {"L",
     "ray_run_name ray_storage_path ray_num_workers resources_per_worker "
     "placement_strategy",
     "", Ignored, kRanks},
    {"HAL", "ddp_timeout", "network.timeout_seconds", Timeout},
    {"HL", "average_tokens_across_devices", "", Ignored,
     "a loss is the mean over the labelled tokens of all ranks, as with true; "
     "with false those of a rank that has fewer count for more"},
    {"HL", "use_cpu no_cuda", "device.type", UseCpu, "\"host\" or \"cuda\""},
    {"H", "use_mps_device", "", Ignored, kRanks},
    {"T", "device", "device.type", Device},
    {"A", "axolotl_config_path", "", Ignored, kLog},
    // These keys are of other systems and of scripts. They have no letters, and
    // serve for hints alone.
    {"", "max_lr", "optimizer.params.lr"},
    {"", "beta1 beta2", "optimizer.params.betas", nullptr, kBetas},
    {"", "torch_adam fused foreach", "", nullptr, kOneKernel},
    {"", "clip_grad grad_clip max_gradient_norm", "gradient_clipping"},
    {"", "lr_decay_style", "scheduler.type"},
    {"", "num_warmup_steps warmup_iters lr_warmup_steps",
     "scheduler.params.warmup_num_steps"},
    {"",
     "lr_decay_steps lr_decay_iters scheduler.params.total_steps "
     "scheduler.params.num_training_steps",
     "scheduler.params.total_num_steps"},
    {"", "max_epochs n_epochs", "num_train_epochs"},
    {"",
     "train_steps train_iters max_iters num_steps total_steps "
     "num_training_steps",
     "steps"},
    {"", "global_batch_size", "train_batch_size"},
    {"", "grad_accum_steps accumulate_grad_batches",
     "gradient_accumulation_steps"},
    {"", "random_seed manual_seed", "seed"},
    {"", "log_interval", "steps_per_print"},
    {"", "eval_iters", "eval_batches"},
    {"", "val_check_interval", "eval_interval"},
    {"", "save_dir", "checkpoint.dir"},
    {"", "pretrained_model_name_or_path model_path", "model.pretrained"},
    {"", "tokenizer_name_or_path tokenizer_path", "data.tokenizer"},
    {"", "data_path train_data", "data.train"},
    {"", "valid_data val_data", "data.validation"},
    {"", "max_seq_len model_max_length seq_length seq_len context_length",
     "data.sequence_length"},
    {"", "num_workers", "", nullptr, kLoaders},
    {"", "checkpoint_activations", "memory.activation_checkpointing"},
    {"", "tensor_placement_policy", "memory.placement_policy", nullptr,
     "\"cuda\", \"cpu\" or \"auto\""},
    {"", "zero offload_optimizer offload_param cpu_offload",
     "memory.placement_policy", nullptr,
     "\"auto\" plans what is on the device and what on the host"},
    {"", "zero_stage", "", nullptr,
     "parameters, gradients and optimizer states are always sharded over "
     "ranks"},
    {"", "chunk_size_mb", "memory.chunk_size", nullptr,
     "with a unit, like \"32MiB\""},
    {"", "search_range_mb min_chunk_size_mb", "memory.chunk_size", nullptr,
     "\"auto\" searches for the one that wastes least"},
    {"", "gpu_memory", "memory.device_memory"},
    {"", "cpu_memory", "memory.host_memory"},
    {"", "precision mixed_precision", "bf16.enabled"},
    {"", "num_gpus", "", nullptr, kRanks},
    {"", "num_threads", "device.threads"},
    {"", "timeout", "network.timeout_seconds"},
};

}  // namespace

absl::Span<const ForeignKey> MachineKeys() { return kKeys; }

}  // namespace castor
