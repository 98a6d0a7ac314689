#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/opt/opt.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<OptConfig> ReadHf(const char* text) {
  const Json json = Json::parse(text);
  JsonReport report("config.json");
  JsonReader reader(json, report);
  const auto architecture = OptFamily().ReadHfConfig(reader);
  if (!report.status().ok()) return report.status();
  return dynamic_cast<const OptConfig&>(*architecture);
}

// The keys that facebook/opt-350m has on the hub.
TEST(OptConfig, ReadsTheOriginalsConfig) {
  const auto config = ReadHf(R"({
    "_remove_final_layer_norm": false, "activation_dropout": 0.0,
    "activation_function": "relu", "architectures": ["OPTForCausalLM"],
    "attention_dropout": 0.0, "bos_token_id": 2, "do_layer_norm_before": false,
    "dropout": 0.1, "eos_token_id": 2, "ffn_dim": 4096, "hidden_size": 1024,
    "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048,
    "model_type": "opt", "num_attention_heads": 16, "num_hidden_layers": 24,
    "pad_token_id": 1, "prefix": "</s>", "torch_dtype": "float16",
    "use_cache": true, "vocab_size": 50272, "word_embed_proj_dim": 512})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->do_layer_norm_before);
  EXPECT_FALSE(config->has_final_norm());
  EXPECT_TRUE(config->has_projections());
  EXPECT_EQ(config->word_embed_proj_dim, 512);
  EXPECT_EQ(config->ffn_dim, 4096);
  EXPECT_TRUE(config->enable_bias);
  EXPECT_TRUE(config->tie_word_embeddings);
}

TEST(OptConfig, TakesTransformersDefaults) {
  for (const char* text : {R"({})", R"({"word_embed_proj_dim": null})"}) {
    const auto config = ReadHf(text);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->word_embed_proj_dim, 768);
    EXPECT_FALSE(config->has_projections());
    EXPECT_TRUE(config->has_final_norm());
    OptConfig defaults;
    defaults.word_embed_proj_dim = 768;
    EXPECT_EQ(config->ToJson(), defaults.ToJson());
  }
}

TEST(OptConfig, IsReadBackFromItsJson) {
  OptConfig model;
  model.num_hidden_layers = 3;
  model.word_embed_proj_dim = 100;
  model.remove_final_layer_norm = true;
  model.enable_bias = false;
  model.activation_function = "gelu";
  model.attention_dropout = 0.25;
  model.tie_word_embeddings = false;
  const Json json = model.ToJson();
  JsonReport report("config");
  JsonReader reader(json, report);
  OptConfig again;
  again.Read(reader);
  reader.RefuseUnknownKeys();
  ASSERT_TRUE(report.status().ok()) << report.status();
  EXPECT_EQ(again.ToJson(), model.ToJson());
  EXPECT_TRUE(again.remove_final_layer_norm);
}

TEST(OptConfig, IdentityIsWhatTheParametersMean) {
  OptConfig a, b;
  b.dropout = b.attention_dropout = 0.5;
  b.init_std = 1;
  b.word_embed_proj_dim = b.hidden_size;
  EXPECT_NE(a.ToJson(), b.ToJson());
  EXPECT_EQ(a.Identity(), b.Identity());
  b.do_layer_norm_before = false;
  EXPECT_NE(a.Identity(), b.Identity());
}

TEST(OptConfig, RefusesWhatItCannotDoByName) {
  const struct {
    const char* text;
    const char* why;
  } cases[] = {
      {R"({"hidden_size": 10, "num_attention_heads": 3})",
       "hidden_size: 10 is not a multiple of num_attention_heads (3)"},
      {R"({"num_hidden_layers": 0})", "num_hidden_layers"},
      {R"({"word_embed_proj_dim": 0})", "word_embed_proj_dim"},
      {R"({"dropout": 1})", "dropout"},
      {R"({"attention_dropout": -1})", "attention_dropout"},
      {R"({"activation_function": "tanh"})",
       R"("tanh" is not supported; only "relu", "gelu")"},
      {R"({"layerdrop": 0.1})", "layerdrop: 0.1 is not supported"},
      {R"({"layer_norm_elementwise_affine": false})",
       "layer_norm_elementwise_affine"},
  };
  for (const auto& test : cases) {
    const auto config = ReadHf(test.text);
    ASSERT_FALSE(config.ok()) << test.text;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(test.why));
  }
}

}  // namespace
}  // namespace castor::models
