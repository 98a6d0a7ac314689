#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "run/config/foreign/conversions.h"
#include "run/config/foreign/foreign_account.h"
#include "run/config/foreign/foreign_key.h"
#include "run/config/foreign/foreign_sentences.h"
#include "run/optim/optimizers.h"

namespace castor {
namespace {

using conversions::Ignored;
using conversions::IsOff;
using conversions::Lacking;
using conversions::OneOnly;
using conversions::Same;
using namespace foreign_sentences;  // NOLINT: the rows are made of them

constexpr char kD[] = "D";
// Other systems have the key, too.
constexpr char kAlso[] = "D?";
// Castor has the key, too.
constexpr char kOurs[] = "D?=";

// Sentences that several keys have in common.
constexpr absl::string_view kSums =
    "ranks' gradients are added in fp32, in one order, and need no scale";
constexpr absl::string_view kActivations =
    "memory.activation_checkpointing says which activations are kept";
constexpr absl::string_view kDisk = "nothing is kept on a disk but checkpoints";
constexpr absl::string_view kCheckpoints =
    "checkpoints are whole files that any number of ranks can go on from";
constexpr absl::string_view kOwnOptimizers =
    "Castor updates parameters with its own optimizers";
constexpr absl::string_view kModelTypes =
    "Castor's operators take what the model's type of numbers is";
constexpr absl::string_view kFullLength =
    "each sample has data.sequence_length tokens from the first step on";

// A section that asks for nothing unless its "enabled" is true.
void LackingIfEnabled(const ForeignKey& key, const Json& value,
                      ForeignAccount& account) {
  if (value.is_object()) {
    const auto enabled = value.find("enabled");
    if (enabled == value.end() || IsOff(*enabled)) {
      return account.Ignore("it is not enabled");
    }
  }
  Lacking(key, value, account);
}

// The section of tensor parallelism asks for nothing here unless one of its
// sizes is above 1.
void TensorParallel(const ForeignKey& key, const Json& value,
                    ForeignAccount& account) {
  for (const char* const size : {"autotp_size", "tp_size"}) {
    const Json* ranks = FindAtPath(value, size);
    if (ranks != nullptr && ranks->is_number() && ranks->get<double>() > 1) {
      return Lacking(key, value, account);
    }
  }
  account.Ignore("ranks have parts of parameters as Castor divides them");
}

// The section is an object, and in the first releases was true or false.
void Zero(const ForeignKey& key, const Json& value, ForeignAccount& account) {
  if (!value.is_boolean() && !value.is_object()) {
    return account.Lack(
        absl::StrCat("expected an object, found ", DescribeJson(value)));
  }
  Ignored(key, value, account);
}

void ZeroStage(const ForeignKey& key, const Json& value,
               ForeignAccount& account) {
  const bool known = value.is_number_integer() && value.get<double>() >= 0 &&
                     value.get<double>() <= 3;
  if (!known) {
    return account.Lack(absl::StrCat("expected a stage from 0 to 3, found ",
                                     DescribeJson(value)));
  }
  Ignored(key, value, account);
}

// DeepSpeed takes its optimizers' names in any case.
void OptimizerType(const ForeignKey& key, const Json& value,
                   ForeignAccount& account) {
  static constexpr std::pair<absl::string_view, absl::string_view> kOthers[] = {
      {"onebitadam", "Adam"}, {"zerooneadam", "Adam"}, {"muadam", ""},
      {"onebitlamb", "Lamb"}, {"muadamw", ""},         {"musgd", ""},
      {"muon", ""},           {"adagrad", ""},         {"cpuadam", "Adam"},
      {"rmsprop", ""},
  };
  if (!value.is_string()) return account.Take(key.ours, value);
  const std::string& name = value.get_ref<const std::string&>();
  const std::string lower = absl::AsciiStrToLower(name);
  for (const absl::string_view ours : OptimizerNames()) {
    if (absl::AsciiStrToLower(ours) == lower) {
      return account.Take(key.ours, std::string(ours));
    }
  }
  for (const auto& [other, near] : kOthers) {
    if (lower != other) continue;
    return account.Lack(absl::StrCat(
        "castor's optimizers are ", absl::StrJoin(OptimizerNames(), ", "),
        ", and ", name, " is none of them",
        near.empty() ? ""
                     : absl::StrCat(": give \"", near,
                                    "\", whose gradients are sent whole")));
  }
  account.Take(key.ours, value);  // whoever reads it says what there is
}

// DeepSpeed's engine asks for it only of type Adam.
void AdamWMode(const ForeignKey& key, const Json& value,
               ForeignAccount& account) {
  if (value == false && absl::AsciiStrToLower(StringAtPath(
                            account.ours(), "optimizer.type")) == "adamw") {
    return account.Ignore(key.says);
  }
  account.Take(key.ours, value);
}

void ScheduleType(const ForeignKey& key, const Json& value,
                  ForeignAccount& account) {
  if (value == "OneCycle" || value == "LRRangeTest") {
    return account.Lack(
        absl::StrCat("castor has no schedule ", value.dump(),
                     ": take one of those in docs/configuration.md"));
  }
  account.Take(key.ours, value);
}

constexpr ForeignKey kKeys[] = {
    // ZeRO.
    {kD, "zero_optimization.stage", "memory.placement_policy", ZeroStage,
     kPlanned},
    {kD,
     "zero_optimization.offload_optimizer zero_optimization.offload_param "
     "zero_optimization.cpu_offload zero_optimization.cpu_offload_params",
     "memory.placement_policy", Ignored, kPlanned},
    {kD,
     "zero_optimization.cpu_offload_use_pin_memory "
     "zero_optimization.super_offload zero_optimization.contiguous_gradients "
     "zero_optimization.reduce_scatter zero_optimization.reduce_bucket_size "
     "zero_optimization.use_multi_rank_bucket_allreduce "
     "zero_optimization.allgather_partitions "
     "zero_optimization.allgather_bucket_size zero_optimization.overlap_comm "
     "zero_optimization.sub_group_size "
     "zero_optimization.ignore_unused_parameters "
     "zero_optimization.legacy_stage1 zero_optimization.round_robin_gradients "
     "zero_optimization.prefetch_bucket_size "
     "zero_optimization.param_persistence_threshold "
     "zero_optimization.model_persistence_threshold "
     "zero_optimization.max_live_parameters "
     "zero_optimization.max_reuse_distance "
     "zero_optimization.stage3_max_live_parameters "
     "zero_optimization.stage3_max_reuse_distance "
     "zero_optimization.stage3_prefetch_bucket_size "
     "zero_optimization.stage3_param_persistence_threshold "
     "zero_optimization.stage3_model_persistence_threshold "
     "zero_optimization.stage3_module_granularity_threshold "
     "zero_optimization.stage3_use_all_reduce_for_fetch_params "
     "zero_optimization.stage3_allgather_sequential "
     "zero_optimization.use_all_reduce_for_fetch_params "
     "zero_optimization.allgather_sequential "
     "zero_optimization.override_module_apply zero_optimization.leaf_module "
     "zero_optimization.zero_hpz_partition_size "
     "zero_optimization.mics_shard_size "
     "zero_optimization.mics_hierarchical_params_gather",
     "", Ignored, kPlanned},
    {kD, "zero_optimization.zenflow", "", Lacking,
     "all gradients are applied in their own step"},
    {kD,
     "zero_optimization.elastic_checkpoint "
     "zero_optimization.load_from_fp32_weights "
     "zero_optimization.gather_16bit_weights_on_model_save "
     "zero_optimization.gather_fp16_weights_on_model_save "
     "zero_optimization.stage3_gather_16bit_weights_on_model_save "
     "zero_optimization.stage3_gather_fp16_weights_on_model_save "
     "zero_optimization.pipeline_loading_checkpoint",
     "", Ignored, kCheckpoints},
    {kD, "zero_optimization.log_trace_cache_warnings", "", Ignored, kTrace},
    {kD, "zero_optimization.memory_efficient_linear", "", Ignored, kKernels},
    {kD,
     "zero_optimization.zero_quantized_weights "
     "zero_optimization.zero_quantized_nontrainable_weights",
     "", Lacking, "weights are sent as they are"},
    {kD, "zero_optimization.zero_quantized_gradients", "", Lacking,
     "gradients are added in fp32"},
    {kD, "zero_optimization", "memory.placement_policy", Zero, kPlanned},
    {kD, "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer", "",
     Ignored, kOwnOptimizers},
    {kD, "zero_allow_comm_data_type_fp32", "", Ignored, kSums},
    {kAlso, "zero_config", "", Ignored, kPlanned},
    // Numbers and how they are sent.
    {kD, "bfloat16", "bf16", Same},
    {kD, "fp16.auto_cast", "", Ignored, kModelTypes},
    {kD, "fp16.consecutive_hysteresis", "", Lacking,
     "the hysteresis is filled again when the scale grows"},
    {kD,
     "fp16.fp16_master_weights_and_grads bf16.bf16_master_weights_and_grads",
     "", Lacking, "optimizer.state_format says in what masters are kept"},
    {kAlso, "fp16.opt_level fp16.fp16_opt_level", "", Ignored,
     "apex has such levels"},
    {kAlso, "fp16.type", "", Ignored, "fp16.enabled says it"},
    {kAlso,
     "bf16.loss_scale bf16.initial_scale_power bf16.loss_scale_window "
     "bf16.hysteresis bf16.min_loss_scale",
     "", Ignored, "bf16 has the range of fp32, and its loss needs no scale"},
    {kAlso, "bf16.auto_cast", "", Ignored, kModelTypes},
    {kD, "bf16.immediate_grad_update allgather_size", "", Ignored, kPlanned},
    {kD, "bf16.check_grad_overflow", "", Ignored,
     "on_nonfinite says what becomes of such a step"},
    {kD, "bf16.bf16_optimizer_states", "", Lacking,
     "optimizer states are fp32"},
    {kAlso, "amp", "bf16.enabled", LackingIfEnabled,
     "apex's mixed precision is not here; bf16.enabled and fp16.enabled are"},
    {kD, "torch_autocast", "", LackingIfEnabled,
     "castor train has no autocast; bf16.enabled and fp16.enabled are here"},
    {kAlso, "data_types gradient_accumulation_dtype", "", Ignored, kSums},
    {kD,
     "communication_data_type seq_parallel_communication_data_type "
     "prescale_gradients gradient_predivide_factor fp32_allreduce "
     "allreduce_always_fp32",
     "", Ignored, kSums},
    {kAlso, "disable_allgather", "", Ignored, kPlanned},
    {kD, "sparse_gradients", "", Ignored,
     "gradients of embeddings are whole, which changes no sum"},
    // The optimizer's and the schedule's parameters.
    {kOurs, "optimizer.params.max_grad_norm", "optimizer.params.max_grad_norm",
     Same},
    {kOurs, "optimizer.params.adam_w_mode", "optimizer.params.adam_w_mode",
     AdamWMode, "in DeepSpeed, too, AdamW is AdamW whatever this says"},
    {kOurs, "optimizer.type", "optimizer.type", OptimizerType},
    {kOurs, "scheduler.type", "scheduler.type", ScheduleType},
    {kAlso,
     "optimizer.params.torch_adam optimizer.params.fused "
     "optimizer.params.foreach",
     "", Ignored, kOneKernel},
    {kAlso, "optimizer.params.amsgrad", "", Lacking,
     "castor has Adam without the maximum of its second moments"},
    {kAlso, "optimizer.params.eps_inside_sqrt", "", Lacking,
     "castor adds eps outside of the root"},
    {kD, "optimizer.legacy_fusion", "", Ignored, kOneKernel},
    {kD, "scheduler.params.last_batch_iteration", "", Ignored,
     "a checkpoint knows its step"},
    // Logs and measurements.
    {kD,
     "wall_clock_breakdown memory_breakdown dump_state flops_profiler "
     "comms_logger wall_clock_breakdown_every",
     "", Ignored, kTrace},
    {kAlso, "timers", "", Ignored, kTrace},
    {kAlso, "tensorboard wandb comet", "", Ignored, kTensorBoard},
    {kD, "csv_monitor monitor_config", "", Ignored, kTensorBoard},
    {kAlso, "autotuning", "", Ignored, "castor plan says what fits"},
    {kAlso, "compile", "", Ignored, kKernels},
    {kD, "graph_harvesting", "", Ignored, kKernels},
    // Memory and files.
    {kD, "activation_checkpointing", "memory.activation_checkpointing", Ignored,
     kActivations},
    {kD, "aio nebula datastates_ckpt", "", Ignored, kDisk},
    {kD,
     "checkpoint.tag_validation checkpoint.load_universal "
     "checkpoint.use_node_local_storage checkpoint.parallel_write "
     "checkpoint.writer",
     "", Ignored, kCheckpoints},
    {kAlso, "use_node_local_storage", "", Ignored, kCheckpoints},
    {kAlso, "dataloader_drop_last", "", Ignored,
     "castor train's samples wrap around, so that each batch is whole; the "
     "loader of castor.deepspeed_initialize keeps to it"},
    // Ranks.
    {kAlso, "pipeline", "", Ignored,
     "a model is divided over ranks by chunks, not by layers"},
    {kAlso, "tensor_parallel", "", TensorParallel,
     "castor divides batches over ranks, not matrices"},
    {kAlso, "sequence_parallel_size", "", OneOnly,
     "castor divides batches over ranks, not sequences"},
    {kD, "use_data_before_expert_parallelism", "", Ignored, kPlanned},
    {kD, "elasticity", "", LackingIfEnabled,
     "a batch has one size; resuming on other numbers of ranks needs nothing"},
    // Keys that change results.
    {kD, "sparse_attention", "", Lacking, kWholeAttention},
    {kD, "curriculum_learning", "", LackingIfEnabled, kFullLength},
    {kAlso, "curriculum", "", LackingIfEnabled, kFullLength},
    {kD, "data_efficiency", "", LackingIfEnabled,
     "castor takes all samples, in an order that follows from seed"},
    {kD, "progressive_layer_drop", "", LackingIfEnabled,
     "all layers are computed in each step"},
    {kD, "quantize_training", "", LackingIfEnabled, kQuantized},
    {kD, "compression_training", "", Lacking,
     "nothing is quantized or pruned while it trains"},
    {kD, "weight_quantization", "", Lacking, kQuantized},
    {kAlso, "eigenvalue", "", LackingIfEnabled, "it serves quantize_training"},
    {kD, "hybrid_engine", "", LackingIfEnabled,
     "castor train does not generate while it trains"},
};

}  // namespace

absl::Span<const ForeignKey> DeepSpeedKeys() { return kKeys; }

}  // namespace castor
