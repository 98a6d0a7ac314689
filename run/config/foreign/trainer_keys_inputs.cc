#include "run/config/foreign/conversions.h"
#include "run/config/foreign/foreign_key.h"
#include "run/config/foreign/foreign_sentences.h"
#include "run/config/foreign/trainer_keys.h"

namespace castor {
namespace {

using namespace conversions;        // NOLINT: the rows are made of them
using namespace foreign_sentences;  // NOLINT

// Sentences that several rows have.
constexpr absl::string_view kAdapters =
    "castor train has no adapters, which run under PyTorch (docs/pytorch.md)";
constexpr absl::string_view kFull =
    "castor train trains all parameters; adapters run under PyTorch "
    "(docs/pytorch.md)";
constexpr absl::string_view kText =
    "castor train reads text, prompts and conversations by the keys of their "
    "records, with the chat template of the tokenizer's directory "
    "(docs/data.md)";
constexpr absl::string_view kPreferences =
    "castor train learns to predict tokens; DPO, GRPO and the like run under "
    "PyTorch (docs/pytorch.md)";
constexpr absl::string_view kFrozen =
    "model.frozen has the patterns of names that are not trained";
constexpr absl::string_view kVocabulary =
    "a model has the tokens of its config.json";
constexpr absl::string_view kSamples =
    "a text's samples are full by themselves; data.packing \"rows\" lets "
    "records share theirs (docs/data.md)";
constexpr absl::string_view kTokens =
    "tokens are kept beside each file, or in data.cache";
constexpr absl::string_view kLongRecords =
    "records of more than data.sequence_length tokens are cut, and a run tells "
    "how many: leave them out of the file";
constexpr absl::string_view kWholeFile =
    "data.train is taken whole: cut the file";

constexpr ForeignKey kKeys[] = {
    // The model.
    {"HL", "model_name_or_path", "model.pretrained", Path},
    {"A", "base_model", "model.pretrained", Path},
    {"T", "checkpointer.checkpoint_dir", "model.pretrained", Path},
    {"T",
     "checkpointer._component_ checkpointer.checkpoint_files "
     "checkpointer.model_type checkpointer.safe_serialization",
     "", Ignored,
     "model.pretrained is a directory of Hugging Face's with all that is in "
     "it"},
    {"T", "model._component_", "", ModelComponent, kAdapters},
    {"T",
     "model.lora_attn_modules model.apply_lora_to_mlp "
     "model.apply_lora_to_output model.lora_rank model.lora_alpha "
     "model.lora_dropout model.use_dora model.quantize_base",
     "", Lacking, kAdapters},
    {"H", "config_name", "model.from_config", Path},
    {"A", "base_model_config", "", Ignored,
     "model.pretrained has its config.json"},
    {"HL",
     "model_revision cache_dir use_auth_token token hf_hub_token "
     "use_fast_tokenizer low_cpu_mem_usage",
     "", Ignored, kHub},
    {"A", "revision_of_model", "", Ignored, kHub},
    {"HA", "model_type", "", Ignored, kModelConfig},
    {"A",
     "is_llama_derived_model is_mistral_derived_model is_qwen_derived_model "
     "is_falcon_derived_model",
     "", Ignored, kModelConfig},
    {"HAL", "trust_remote_code", "", Ignored, "no code comes with a model"},
    {"L", "ms_hub_token om_hub_token", "", Ignored, kHub},
    {"HAL", "torch_dtype", "bf16.enabled", Ignored, kAutocast},
    {"HAL",
     "attn_implementation torch_compile torch_compile_backend "
     "torch_compile_mode tf32",
     "", Ignored, kKernels},
    {"L",
     "flash_attn enable_liger_kernel use_unsloth use_unsloth_gc use_v1_kernels"
     " use_kernels",
     "", Ignored, kKernels},
    {"A",
     "flash_attention xformers_attention sdp_attention eager_attention "
     "flex_attention sage_attention flash_attn_cross_entropy "
     "flash_attn_rms_norm flash_attn_fuse_qkv flash_attn_fuse_mlp "
     "flash_optimum liger_rope liger_rms_norm liger_glu_activation "
     "liger_layer_norm liger_swiglu liger_fused_linear_cross_entropy "
     "liger_cross_entropy unsloth_cross_entropy_loss cut_cross_entropy plugins"
     " bettertransformer",
     "", Ignored, kKernels},
    {"A", "s2_attention", "", Lacking, kWholeAttention},
    {"L", "shift_attn", "", Lacking, kWholeAttention},
    {"HL",
     "use_liger_kernel liger_kernel_config torchdynamo use_ipex use_cache", "",
     Ignored, kKernels},
    {"T", "compile custom_sharded_layers", "", Ignored, kKernels},
    {"L", "rope_scaling", "", Lacking, "config.json has the positions"},
    {"A", "overrides_of_model_config overrides_of_model_kwargs", "", Lacking,
     "config.json has the sizes"},
    {"A", "unfrozen_parameters", "", Lacking, kFrozen},
    {"L",
     "freeze_trainable_layers freeze_trainable_modules freeze_extra_modules "
     "use_llama_pro",
     "", Lacking, kFrozen},
    {"L", "resize_vocab add_tokens new_special_tokens", "", Lacking,
     kVocabulary},
    {"A", "resize_token_embeddings_to_32x added_tokens_overrides tokens", "",
     Lacking, kVocabulary},
    // Adapters, quantized models, preferences.
    {"A", "adapter", "", FullOnly, kFull},
    {"L", "finetuning_type", "", FullOnly, kFull},
    {"HA", "lora_r lora_target_modules", "", Lacking, kAdapters},
    {"HAL", "lora_alpha lora_dropout", "", Lacking, kAdapters},
    {"A",
     "lora_target_linear lora_target_parameters lora_modules_to_save "
     "lora_model_dir lora_fan_in_fan_out lora_mlp_kernel lora_qkv_kernel "
     "lora_o_kernel peft peft_use_dora peft_use_rslora relora",
     "", Lacking, kAdapters},
    {"L",
     "lora_rank lora_target additional_target adapter_name_or_path pissa_init "
     "loraplus_lr_ratio create_new_adapter",
     "", Lacking, kAdapters},
    {"HL", "use_rslora use_dora", "", Lacking, kAdapters},
    {"H", "lora_task_type use_peft", "", Lacking, kAdapters},
    {"HA", "load_in_8bit load_in_4bit", "", Lacking, kQuantized},
    {"A", "gptq quantization qat", "", Lacking, kQuantized},
    {"ALT", "fp8", "", Lacking, kQuantized},
    {"L",
     "quantization_bit quantization_method quantization_type "
     "double_quantization",
     "", Lacking, kQuantized},
    {"T", "mixed_precision.enabled quantizer", "", Lacking, kQuantized},
    {"T", "mixed_precision._component_", "", Ignored, kQuantized},
    {"A", "rl process_reward_model trl", "", Lacking, kPreferences},
    {"AL", "reward_model", "", Lacking, kPreferences},
    {"L", "pref_beta pref_loss pref_ftx ref_model", "", Lacking, kPreferences},
    {"L", "stage", "", Stage, kPreferences},
    {"L", "use_galore use_badam use_apollo use_muon use_adam_mini", "", Lacking,
     kOptimizers},
    {"L", "use_asft_loss use_dft_loss use_eaft_loss compute_accuracy", "",
     Lacking, kMeanLoss},
    {"A", "use_dynamic_finetuning chunked_cross_entropy_loss", "", Lacking,
     kMeanLoss},
    {"T", "loss", "", Loss, kMeanLoss},
    // The data.
    {"H", "dataset_name train_file", "data.train", DataFiles},
    {"A", "datasets pretraining_dataset", "data.train", DataFiles},
    {"L", "dataset", "data.train", DataFiles},
    {"L", "dataset_dir media_dir", "", LeftToUser,
     "data.train names files; dataset_info.json is not read"},
    {"H",
     "dataset_config_name dataset_config dataset_train_split "
     "dataset_test_split",
     "", Ignored, kHub},
    {"H", "validation_file", "data.validation", DataFiles},
    {"A", "test_datasets", "data.validation", DataFiles},
    {"L", "eval_dataset", "data.validation", DataFiles},
    {"T", "dataset.source", "data.train", LeftToUser, kText},
    {"T", "dataset.data_files dataset", "data.train", DataFiles},
    {"T", "dataset.packed", "data.packing", Packed, kSamples},
    {"T",
     "dataset._component_ dataset.column_map "
     "dataset.conversation_column dataset.conversation_style "
     "dataset.split dataset.new_system_prompt dataset.add_eos "
     "dataset.masking_strategy "
     "dataset.image_tag dataset.image_dir",
     "", LeftToUser, kText},
    {"T", "dataset.train_on_input", "data.loss_on", LearnsAll},
    {"T", "dataset.column", "data.keys.text", Same},
    {"T", "dataset_val", "data.validation", LeftToUser, kText},
    {"A", "val_set_size", "data.validation_fraction", Share},
    {"L", "val_size", "data.validation_fraction", Share},
    {"H", "validation_split_percentage", "", LeftToUser,
     "data.validation_fraction is a share of the training data"},
    {"H", "block_size max_length max_seq_length", "data.sequence_length",
     IfPositive},
    {"A", "sequence_len", "data.sequence_length", Same},
    {"L", "cutoff_len", "data.sequence_length", Same},
    {"T", "tokenizer.max_seq_len", "data.sequence_length", IfPositive},
    {"T",
     "tokenizer.path tokenizer._component_ tokenizer.merges_file "
     "tokenizer.prompt_template tokenizer.special_tokens_path",
     "", Ignored, "data.tokenizer is a directory, by itself the model's"},
    {"H", "tokenizer_name", "data.tokenizer", Path},
    {"A", "tokenizer_config", "data.tokenizer", Path},
    {"A",
     "tokenizer_type tokenizer_use_fast tokenizer_legacy "
     "tokenizer_use_mistral_common",
     "", Ignored, "the tokenizer's own files say what it is"},
    {"A", "special_tokens", "", Lacking,
     "the tokenizer's own files have its special tokens"},
    {"A",
     "chat_template chat_template_jinja default_system_message roles_to_train "
     "train_on_eos",
     "", LeftToUser, kText},
    {"A", "train_on_inputs", "data.loss_on", LearnsAll},
    {"L", "template default_system mask_history enable_thinking tool_format",
     "", LeftToUser, kText},
    {"L", "train_on_prompt", "data.loss_on", LearnsAll},
    {"H", "chat_template_path", "", LeftToUser, kText},
    {"H", "assistant_only_loss", "data.loss_on", LearnsOnly, "assistant"},
    {"H", "completion_only_loss", "data.loss_on", LearnsOnly, "completion"},
    {"H", "dataset_text_field", "data.keys.text", Same},
    {"A", "shuffle_merged_datasets", "", Ignored, "data.shuffle says it"},
    {"T", "shuffle", "data.shuffle", Same},
    {"L", "disable_shuffling", "data.shuffle", NotShuffled},
    {"A", "sample_packing", "data.packing", Packed, kSamples},
    {"HL", "packing", "data.packing", Packed, kSamples},
    {"L", "neat_packing", "", LeftToUser, kSamples},
    {"H", "packing_strategy eval_packing", "", LeftToUser, kSamples},
    {"H", "truncation_mode", "", Ignored, "records are cut at their end"},
    {"H", "shuffle_dataset", "", Ignored, "data.shuffle says it"},
    {"H", "pad_token", "", Ignored, "what pads a sample is not seen"},
    {"H", "loss_type", "", LossType, kMeanLoss},
    {"H", "dataset_num_proc", "", Ignored, kLoaders},
    {"A",
     "pad_to_sequence_len sample_packing_eff_est sample_packing_group_size "
     "sample_packing_bin_size total_num_tokens",
     "", Ignored, "samples have data.sequence_length tokens"},
    {"A", "excess_length_strategy", "", ExcessLength, kLongRecords},
    {"A", "dataset_prepared_path", "", Ignored, kTokens},
    {"L", "tokenized_path", "", Ignored, kTokens},
    {"HL", "overwrite_cache", "", Ignored,
     "tokens that are kept follow their file"},
    {"A",
     "dataset_processes dataset_keep_in_memory skip_prepare_dataset "
     "dataset_num_proc",
     "", Ignored, kLoaders},
    {"A", "dataset_exact_deduplication", "", LeftToUser,
     "data.train is taken as it is: leave records out of the file that are in "
     "it twice"},
    {"A", "dataset_shard_num dataset_shard_idx", "", LeftToUser, kWholeFile},
    {"HAL",
     "dataloader_in_order dataloader_num_workers dataloader_prefetch_factor "
     "dataloader_pin_memory "
     "remove_unused_columns",
     "", Ignored, kLoaders},
    {"HL",
     "dataloader_persistent_workers dataloader_multiprocessing_context "
     "preprocessing_num_workers",
     "", Ignored, kLoaders},
    {"L", "preprocessing_batch_size data_shared_file_system dataset_shards", "",
     Ignored, kLoaders},
    {"L", "max_samples", "", LeftToUser, kWholeFile},
    {"H", "max_train_samples max_eval_samples", "", LeftToUser, kWholeFile},
    {"L", "mix_strategy interleave_probs", "", LeftToUser,
     "data.train takes sources with weights: [{\"path\": PATH, \"weight\": "
     "2}] (docs/data.md)"},
    {"HAL", "streaming", "", LeftToUser,
     "data.streaming, which wants steps and files for validation "
     "(docs/data.md); without it data are tokenised before the run begins"},
    {"L", "buffer_size", "", LeftToUser,
     "data.shuffle_window, beside data.streaming"},
    {"H", "keep_linebreaks", "", Always, "a text is taken as it is"},
};

}  // namespace

absl::Span<const ForeignKey> InputKeys() { return kKeys; }

}  // namespace castor
