// Tests how the configurations of Llama's relatives are read: those of real
// models, and those that are refused.
#include "models/decoder/decoder_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/families.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig Parse(const std::string& text) {
  ModelConfig model;
  const absl::Status read = ParsePretrained(text, "config.json", &model);
  EXPECT_TRUE(read.ok()) << read << "\n" << text;
  return model;
}

DecoderSizes SizesOf(const std::string& text) {
  const ModelConfig model = Parse(text);
  const auto* config =
      dynamic_cast<const DecoderConfig*>(model.architecture.get());
  if (config == nullptr) return {};
  return config->Sizes();
}

std::string ErrorOf(const std::string& text) {
  ModelConfig model;
  const absl::Status read = ParsePretrained(text, "config.json", &model);
  EXPECT_EQ(read.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(read.message());
}

TEST(DecoderConfig, ReadsLlama2) {
  const DecoderSizes sizes = SizesOf(R"({
    "architectures": ["LlamaForCausalLM"], "bos_token_id": 1,
    "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
    "initializer_range": 0.02, "intermediate_size": 11008,
    "max_position_embeddings": 4096, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": null, "tie_word_embeddings": false,
    "torch_dtype": "float16", "use_cache": true, "vocab_size": 32000})");
  EXPECT_EQ(sizes.heads, 32);
  EXPECT_EQ(sizes.kv_heads, 32);
  EXPECT_EQ(sizes.head_size, 128);
  EXPECT_EQ(sizes.norm_epsilon, 1e-5f);
  EXPECT_EQ(sizes.rope.type(), RopeType::kDefault);
  EXPECT_EQ(sizes.windows.size(), 32u);
  EXPECT_THAT(sizes.windows, Each(0));
  EXPECT_FALSE(sizes.tied || sizes.qkv_bias || sizes.output_bias ||
               sizes.mlp_bias || sizes.head_norms);
}

TEST(DecoderConfig, ReadsLlama32Of1B) {
  const DecoderSizes sizes = SizesOf(R"({
    "attention_bias": false, "attention_dropout": 0.0, "head_dim": 64,
    "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 8192,
    "max_position_embeddings": 131072, "mlp_bias": false,
    "model_type": "llama", "num_attention_heads": 32,
    "num_hidden_layers": 16, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
      "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
      "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": true,
    "vocab_size": 128256})");
  EXPECT_EQ(sizes.kv_heads, 8);
  EXPECT_EQ(sizes.head_size, 64);
  EXPECT_EQ(sizes.rope.type(), RopeType::kLlama3);
  EXPECT_TRUE(sizes.tied);
}

TEST(DecoderConfig, TellsAMistralsWindowFromNone) {
  EXPECT_THAT(SizesOf(R"({"model_type": "mistral"})").windows, Each(4096));
  EXPECT_THAT(
      SizesOf(R"({"model_type": "mistral", "sliding_window": 7})").windows,
      Each(7));
  const DecoderSizes none = SizesOf(
      R"({"model_type": "mistral", "sliding_window": null, "head_dim": null,
          "num_key_value_heads": null})");
  EXPECT_THAT(none.windows, Each(0));
  EXPECT_EQ(none.kv_heads, 32);
  EXPECT_EQ(SizesOf(R"({"model_type": "mistral"})").kv_heads, 8);
  // Heads together may be narrower than the model: Mistral Nemo's are.
  EXPECT_EQ(SizesOf(R"({"model_type": "mistral", "hidden_size": 5120,
                        "head_dim": 128})")
                .head_size,
            128);
}

TEST(DecoderConfig, ReadsWhichLayersOfAQwenHaveAWindow) {
  const DecoderSizes all = SizesOf(
      R"({"model_type": "qwen2", "sliding_window": 131072,
          "max_window_layers": 28, "use_sliding_window": false})");
  EXPECT_THAT(all.windows, Each(0));
  EXPECT_TRUE(all.qkv_bias);
  EXPECT_FALSE(all.output_bias);
  const std::string upper =
      R"("num_hidden_layers": 3, "use_sliding_window": true,
         "sliding_window": 5)";
  EXPECT_THAT(SizesOf(R"({"model_type": "qwen2", "max_window_layers": 1, )" +
                      upper + "}")
                  .windows,
              ElementsAre(0, 5, 5));
  const DecoderSizes turns = SizesOf(
      R"({"model_type": "qwen3", "layer_types": ["sliding_attention",
          "full_attention", "sliding_attention"], )" +
      upper + "}");
  EXPECT_THAT(turns.windows, ElementsAre(5, 0, 5));
  EXPECT_TRUE(turns.head_norms);
  EXPECT_EQ(turns.head_size, 128);
  EXPECT_THAT(SizesOf(R"({"model_type": "qwen3", "use_sliding_window": true,
                          "sliding_window": null})")
                  .windows,
              Each(0));
}

TEST(DecoderConfig, RefusesWhatItCannotDoByName) {
  const struct {
    const char* type;
    const char* rest;
    const char* why;
  } cases[] = {
      {"llama", R"("hidden_act": "tanh")", "hidden_act: \"tanh\""},
      {"llama", R"("is_causal": false)", "is_causal: false"},
      {"llama", R"("is_encoder_decoder": true)", "is_encoder_decoder"},
      {"llama", R"("quantization_config": {"bits": 4})", "quantization_config"},
      {"llama", R"("num_attention_heads": 6)", "not a multiple"},
      {"llama", R"("num_key_value_heads": 5)",
       "num_attention_heads: 32 is not a multiple of num_key_value_heads (5)"},
      {"llama", R"("head_dim": 7)", "head_dim: 7 is not even"},
      {"llama", R"("hidden_size": 96)", "hidden_size: 96 makes heads of 3"},
      {"llama", R"("rope_scaling": {"rope_type": "longrope"})", "\"longrope\""},
      {"llama", R"("partial_rotary_factor": 0.5)", "partial_rotary_factor"},
      {"llama", R"("rms_norm_eps": 0)", "rms_norm_eps"},
      {"mistral", R"("sliding_window": 0)", "sliding_window"},
      {"mistral", R"("num_hidden_layers": "32")", "num_hidden_layers"},
      {"qwen2", R"("layer_types": ["full_attention"])",
       "layer_types: has 1 entries for num_hidden_layers 32"},
      {"qwen3",
       R"("num_hidden_layers": 1, "layer_types": ["sliding_attention"])",
       "give no window"},
      {"qwen3", R"("num_hidden_layers": 1, "layer_types": ["chunked"])",
       "\"chunked\" is not supported"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ErrorOf(std::string(R"({"model_type": ")") + test.type +
                        "\", " + test.rest + "}"),
                HasSubstr(test.why));
  }
}

// Dropout does not change the function; numbers in effect are the same however
// they are said.
TEST(DecoderConfig, IdentityIsWhatTheParametersMean) {
  const auto identity = [](const std::string& rest) {
    return Parse(R"({"model_type": "qwen3")" + rest + "}")
        .architecture->Identity();
  };
  const OrderedJson plain = identity("");
  EXPECT_EQ(identity(R"(, "attention_dropout": 0.5, "initializer_range": 1)"),
            plain);
  EXPECT_EQ(identity(R"(, "num_key_value_heads": null, "head_dim": 128,
                        "sliding_window": 9, "rope_theta": 10000)"),
            plain);
  EXPECT_NE(identity(R"(, "rms_norm_eps": 1e-5)"), plain);
  EXPECT_NE(identity(R"(, "num_key_value_heads": 4)"), plain);
  EXPECT_NE(identity(R"(, "rope_theta": 1000000)"), plain);
}

TEST(DecoderConfig, OfDynamicPositionsHasSequencesOfAnyLength) {
  const ModelConfig plain =
      Parse(R"({"model_type": "llama", "max_position_embeddings": 8})");
  EXPECT_EQ(plain.architecture->positions(), 8);
  const ModelConfig dynamic =
      Parse(R"({"model_type": "llama", "max_position_embeddings": 8,
          "rope_scaling": {"type": "dynamic", "factor": 2.0}})");
  EXPECT_GT(dynamic.architecture->positions(), 1000);
  EXPECT_EQ(dynamic.architecture->usual_positions(), 8);
}

TEST(DecoderConfig, CountsTheWidestActivationOfEachLayer) {
  const auto count = [](const std::string& rest) {
    return Parse(R"({"model_type": "llama", "num_hidden_layers": 2,
                     "num_attention_heads": 4, "hidden_size": 16)" +
                 rest + "}")
        .architecture->elements_per_token();
  };
  EXPECT_EQ(count(R"(, "intermediate_size": 50)"), 2 * 50);
  EXPECT_EQ(count(R"(, "intermediate_size": 5)"), 2 * 16);
  EXPECT_EQ(count(R"(, "intermediate_size": 5, "head_dim": 32)"), 2 * 128);
}

}  // namespace
}  // namespace castor::models
