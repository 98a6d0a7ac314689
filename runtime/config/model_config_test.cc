#include "runtime/config/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ModelConfig, ReadsHuggingFacesOwnFileAndIgnoresTheRest) {
  const Json json = Json::parse(R"({
    "architectures": ["GPT2LMHeadModel"], "bos_token_id": 50256,
    "n_embd": 48, "n_head": 3, "n_layer": 2, "n_inner": null,
    "n_positions": 64, "vocab_size": 101, "resid_pdrop": 0.0})");
  JsonReport report("config.json");
  JsonReader reader(json, report);
  ModelConfig model;
  ReadGpt2Keys(reader, &model);
  ASSERT_TRUE(report.status().ok()) << report.status();
  EXPECT_EQ(model.n_embd, 48);
  EXPECT_EQ(model.inner(), 192);
  EXPECT_EQ(model.resid_pdrop, 0);
  EXPECT_EQ(model.attn_pdrop, 0.1);
  EXPECT_TRUE(model.tie_word_embeddings);
}

std::string Error(const char* text) {
  const Json json = Json::parse(text);
  JsonReport report("f");
  JsonReader reader(json, report);
  ModelConfig model;
  ReadModelConfig(reader, &model);
  reader.RefuseUnknownKeys();
  EXPECT_FALSE(report.status().ok()) << text;
  return std::string(report.status().message());
}

TEST(ModelConfig, RefusesWhatIsNoModel) {
  EXPECT_THAT(Error(R"({"n_embd": 10, "n_head": 3})"),
              HasSubstr("n_embd: 10 is not a multiple of n_head (3)"));
  EXPECT_THAT(Error(R"({"type": "gpt3"})"), HasSubstr("one of \"gpt2\""));
  EXPECT_THAT(Error(R"({"n_layer": 0})"), HasSubstr("n_layer"));
  EXPECT_THAT(Error(R"({"n_head": 0})"), HasSubstr("n_head: expected"));
  EXPECT_THAT(Error(R"({"attn_pdrop": 1})"), HasSubstr("attn_pdrop"));
  EXPECT_THAT(Error(R"({"layer_norm_epsilon": 0})"),
              HasSubstr("layer_norm_epsilon"));
  EXPECT_THAT(Error(R"({"vocab_size": 1e12})"), HasSubstr("vocab_size"));
  EXPECT_THAT(Error(R"({"pretrained": ""})"), HasSubstr("a directory"));
  EXPECT_THAT(Error(R"({"pretrained": "d", "n_layer": 3})"),
              HasSubstr("n_layer: cannot stand beside pretrained"));
  EXPECT_THAT(Error(R"({"n_layers": 3})"),
              HasSubstr("nearest known key is n_layer"));
}

TEST(ModelConfig, PretrainedTakesSizesFromItsFileAndDropoutsFromOurs) {
  const Json json = Json::parse(
      R"({"pretrained": "dir", "attn_pdrop": 0.25, "frozen": ["*wte*"]})");
  JsonReport report("f");
  JsonReader reader(json, report);
  ModelConfig given;
  ReadModelConfig(reader, &given);
  reader.RefuseUnknownKeys();
  ASSERT_TRUE(report.status().ok()) << report.status();
  ModelConfig loaded;
  loaded.n_layer = 3;
  loaded.attn_pdrop = 0.5;
  loaded.embd_pdrop = 0.5;
  const ModelConfig merged = MergePretrained(given, loaded);
  EXPECT_EQ(merged.n_layer, 3);
  EXPECT_EQ(merged.attn_pdrop, 0.25);
  EXPECT_EQ(merged.embd_pdrop, 0.5);
  EXPECT_EQ(merged.pretrained, "dir");
  EXPECT_THAT(merged.frozen, ElementsAre("*wte*"));
}

}  // namespace
}  // namespace castor
