#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/gpt2/gpt2.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

using ::testing::HasSubstr;

TEST(Gpt2Config, ReadsHuggingFacesOwnFileAndIgnoresTheRest) {
  const Json json = Json::parse(R"({
    "architectures": ["GPT2LMHeadModel"], "bos_token_id": 50256,
    "n_embd": 48, "n_head": 3, "n_layer": 2, "n_inner": null,
    "n_positions": 64, "vocab_size": 101, "resid_pdrop": 0.0})");
  JsonReport report("config.json");
  JsonReader reader(json, report);
  Gpt2Config model;
  model.Read(reader);
  ASSERT_TRUE(report.status().ok()) << report.status();
  EXPECT_EQ(model.n_embd, 48);
  EXPECT_EQ(model.inner(), 192);
  EXPECT_EQ(model.resid_pdrop, 0);
  EXPECT_EQ(model.attn_pdrop, 0.1);
  EXPECT_TRUE(model.tie_word_embeddings);
}

TEST(Gpt2Config, IsReadBackFromItsJson) {
  Gpt2Config model;
  model.n_layer = 3;
  model.n_inner = 100;
  model.attn_pdrop = 0.25;
  model.tie_word_embeddings = false;
  const Json json = model.ToJson();
  JsonReport report("config");
  JsonReader reader(json, report);
  Gpt2Config again;
  again.Read(reader);
  reader.RefuseUnknownKeys();
  ASSERT_TRUE(report.status().ok()) << report.status();
  EXPECT_EQ(again.ToJson(), model.ToJson());
  EXPECT_EQ(again.n_inner, 100);
  EXPECT_FALSE(again.tie_word_embeddings);
}

// The MLP's width has two spellings, and dropout does not change the function.
TEST(Gpt2Config, IdentityIsWhatTheParametersMean) {
  Gpt2Config a, b;
  b.n_inner = 4 * b.n_embd;
  b.attn_pdrop = 0.5;
  b.initializer_range = 1;
  EXPECT_NE(a.ToJson(), b.ToJson());
  EXPECT_EQ(a.Identity(), b.Identity());
  b.layer_norm_epsilon = 1e-6;
  EXPECT_NE(a.Identity(), b.Identity());
}

TEST(Gpt2Config, CountsTheWidestActivationOfEachLayer) {
  Gpt2Config model;
  model.n_layer = 2;
  model.n_embd = 10;
  EXPECT_EQ(model.elements_per_token(), 2 * 40);  // the MLP
  model.n_inner = 5;
  EXPECT_EQ(model.elements_per_token(), 2 * 30);  // queries, keys and values
}

TEST(Gpt2Config, RefusesWhatIsOutOfRange) {
  const auto error = [](const char* text) {
    const Json json = Json::parse(text);
    JsonReport report("f");
    JsonReader reader(json, report);
    Gpt2Config model;
    model.Read(reader);
    reader.RefuseUnknownKeys();
    return std::string(report.status().message());
  };
  EXPECT_THAT(error(R"({"n_embd": 10, "n_head": 3})"),
              HasSubstr("n_embd: 10 is not a multiple of n_head (3)"));
  EXPECT_THAT(error(R"({"n_layer": 0})"), HasSubstr("n_layer"));
  EXPECT_THAT(error(R"({"n_head": 0})"), HasSubstr("n_head: expected"));
  EXPECT_THAT(error(R"({"attn_pdrop": 1})"), HasSubstr("attn_pdrop"));
  EXPECT_THAT(error(R"({"layer_norm_epsilon": 0})"),
              HasSubstr("layer_norm_epsilon"));
  EXPECT_THAT(error(R"({"vocab_size": 1e12})"), HasSubstr("vocab_size"));
  EXPECT_THAT(error(R"({"n_layers": 3})"),
              HasSubstr("nearest known key is n_layer"));
}

}  // namespace
}  // namespace castor::models
