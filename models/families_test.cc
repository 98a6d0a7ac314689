// Every family's way in and out: Castor's configuration and Hugging Face's
// files.
#include "models/families.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt2/gpt2.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "model" as Castor's configuration has it.
absl::StatusOr<ModelConfig> ReadSection(const std::string& text) {
  const Json json = Json::parse(text);
  JsonReport report("f");
  JsonReader reader(json, report);
  ModelConfig model;
  Reader().Read(reader, &model);
  reader.RefuseUnknownKeys();
  if (!report.status().ok()) return report.status();
  return model;
}

std::string SectionError(const std::string& text) {
  const auto model = ReadSection(text);
  EXPECT_FALSE(model.ok()) << text;
  return std::string(model.status().message());
}

std::string SectionOf(const Family& family) {
  return absl::StrCat(R"({"type": ")", family.name(), R"("})");
}

TEST(Families, HaveNamesOfTheirOwn) {
  for (const Family* family : Families()) {
    EXPECT_EQ(FindFamily(family->name()), family);
    const auto model = ReadSection(SectionOf(*family));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->type, family->name());
    EXPECT_EQ(model->architecture->family(), family->name());
    EXPECT_EQ(&FamilyOf(*model), family);
  }
  EXPECT_EQ(FindFamily("gpt3"), nullptr);
}

TEST(Families, ReadBackTheirOwnJsonAndHuggingFaces) {
  for (const Family* family : Families()) {
    const auto model = ReadSection(SectionOf(*family));
    ASSERT_TRUE(model.ok()) << model.status();
    const auto again = ReadSection(model->ToJson().dump());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *model);
    ModelConfig pretrained;
    const absl::Status read =
        ParsePretrained(HfConfigText(*model), "x", &pretrained);
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_EQ(pretrained, *model);
  }
}

TEST(ModelSection, RefusesWhatIsNoModel) {
  EXPECT_THAT(SectionError(R"({"type": "gpt3"})"), HasSubstr("\"gpt2\""));
  EXPECT_THAT(SectionError(R"({"pretrained": ""})"), HasSubstr("a directory"));
  EXPECT_THAT(SectionError(R"({"pretrained": "d", "n_layer": 3})"),
              HasSubstr("n_layer: cannot stand beside pretrained"));
  EXPECT_THAT(SectionError(R"({"pretrained": "d", "attn_pdrop": 2})"),
              HasSubstr("attn_pdrop"));
  EXPECT_THAT(SectionError(R"({"n_layers": 3})"),
              HasSubstr("nearest known key is n_layer"));
}

TEST(ModelSection, PretrainedTakesSizesFromItsFileAndDropoutsFromOurs) {
  auto model = ReadSection(
      R"({"pretrained": "dir", "attn_pdrop": 0.25, "frozen": ["*wte*"]})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->architecture, nullptr);
  EXPECT_EQ(model->type, "");
  const absl::Status read = ParsePretrained(
      R"({"model_type": "gpt2", "n_layer": 3, "attn_pdrop": 0.5,
          "embd_pdrop": 0.5})",
      "dir/config.json", &*model);
  ASSERT_TRUE(read.ok()) << read;
  const auto& loaded = dynamic_cast<const Gpt2Config&>(*model->architecture);
  EXPECT_EQ(loaded.n_layer, 3);
  EXPECT_EQ(loaded.attn_pdrop, 0.25);
  EXPECT_EQ(loaded.embd_pdrop, 0.5);
  EXPECT_EQ(model->type, "gpt2");
  EXPECT_EQ(model->pretrained, "dir");
  EXPECT_THAT(model->frozen, ElementsAre("*wte*"));
}

TEST(ModelSection, FromConfigIsReadAsPretrainedIs) {
  auto model = ReadSection(
      R"({"from_config": "dir", "attn_pdrop": 0.25, "frozen": ["*wte*"]})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->pretrained, "");
  EXPECT_EQ(model->directory(), "dir");
  EXPECT_EQ(model->directory_key(), "from_config");
  EXPECT_EQ(ReadSection(model->ToJson().dump()).value(), *model);
  ASSERT_TRUE(
      ParsePretrained(R"({"model_type": "gpt2", "n_layer": 3})", "x", &*model)
          .ok());
  const auto& loaded = dynamic_cast<const Gpt2Config&>(*model->architecture);
  EXPECT_EQ(loaded.n_layer, 3);
  EXPECT_EQ(loaded.attn_pdrop, 0.25);
  EXPECT_EQ(model->ToJson(),
            OrderedJson::parse(R"({"type": "gpt2", "from_config": "dir",
                                   "attn_pdrop": 0.25, "frozen": ["*wte*"]})"));
  // The same model with its sizes where the directory was.
  const ModelConfig whole = model->WithoutDirectory();
  EXPECT_EQ(whole.directory(), "");
  EXPECT_EQ(whole.ToJson()["n_layer"], 3);
  EXPECT_EQ(whole.ToJson()["attn_pdrop"], 0.25);

  EXPECT_THAT(SectionError(R"({"from_config": ""})"), HasSubstr("a directory"));
  EXPECT_THAT(SectionError(R"({"from_config": 3})"), HasSubstr("from_config"));
  EXPECT_THAT(SectionError(R"({"from_config": "d", "n_layer": 3})"),
              HasSubstr("n_layer: cannot stand beside from_config"));
  EXPECT_THAT(SectionError(R"({"from_config": "d", "pretrained": "d"})"),
              HasSubstr("from_config: cannot stand beside pretrained"));
}

TEST(ModelSection, RefusesATypeOrAKeyThatTheDirectorysFamilyDoesNotHave) {
  const auto error = [](ModelConfig model) {
    return std::string(
        ParsePretrained(R"({"model_type": "gpt2"})", "x", &model).message());
  };
  ModelConfig typed;
  typed.type = "another";
  EXPECT_THAT(error(typed), HasSubstr("model.type is \"another\""));
  ModelConfig strange;
  strange.overrides =
      std::make_shared<const OrderedJson>(OrderedJson{{"hidden_dropout", 0.5}});
  EXPECT_THAT(
      error(strange),
      HasSubstr("hidden_dropout: a model of type \"gpt2\" has no such key"));
}

// Returns the config.json of an export of a model that had `text`.
Json ExportedOf(const std::string& text, DType dtype = DType::kFloat32) {
  ModelConfig model;
  const absl::Status read = ParsePretrained(text, "x", &model);
  EXPECT_TRUE(read.ok()) << read;
  return Json::parse(HfConfigText(model, dtype));
}

TEST(HfConfigText, GivesBackWhatMeansNothingToTheFamily) {
  const Json exported = ExportedOf(R"({
      "model_type": "gpt2", "n_layer": 3, "use_cache": false,
      "bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": null,
      "task_specific_params": {"a": {"b": 0.1}},
      "scale_attn_weights": true, "hidden_size": 768, "n_embd": 768,
      "architectures": ["GPT2Model"], "torch_dtype": "float16",
      "auto_map": {"AutoModel": "code.Model"}, "quantization_config": {},
      "transformers_version": "4.40.0"})",
                                   DType::kBFloat16);
  EXPECT_EQ(exported["n_layer"], 3);
  EXPECT_EQ(exported["use_cache"], false);
  EXPECT_EQ(exported["bos_token_id"], 1);
  EXPECT_EQ(exported["eos_token_id"], Json({2, 3}));
  EXPECT_EQ(exported.at("pad_token_id"), nullptr);
  EXPECT_EQ(exported["task_specific_params"]["a"]["b"], 0.1);
  EXPECT_EQ(exported["architectures"], Json({"GPT2LMHeadModel"}));
  EXPECT_EQ(exported["dtype"], "bfloat16");
  EXPECT_EQ(exported["torch_dtype"], "bfloat16");
  for (const char* key : {"auto_map", "quantization_config", "hidden_size",
                          "transformers_version", "scale_attn_weights"}) {
    EXPECT_FALSE(exported.contains(key)) << key;
  }
}

// A key that is absent has transformers' default, and goes on having it.
TEST(HfConfigText, SaysNoTokensWhereTheDirectorySaidNone) {
  EXPECT_FALSE(
      ExportedOf(R"({"model_type": "gpt2"})").contains("bos_token_id"));
  const auto model = ReadSection(R"({"type": "gpt2"})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(Json::parse(HfConfigText(*model)).at("bos_token_id"), nullptr);
}

TEST(HfConfigText, IsKnownAgainByteForByte) {
  ModelConfig model;
  ASSERT_TRUE(ParsePretrained(R"({"model_type": "gpt2", "eos_token_id": 7,
                                  "scale": 1e-300, "name": "\u00e9"})",
                              "x", &model)
                  .ok());
  // The model that is to be exported makes no difference.
  const auto another = ReadSection(R"({"type": "gpt2", "n_layer": 1})");
  ASSERT_TRUE(another.ok()) << another.status();
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const ExportedConfig exported = ExportedConfigOf(model, dtype);
    EXPECT_TRUE(exported.is_exported(exported.text));
    EXPECT_TRUE(ExportedConfigOf(*another).is_exported(exported.text));
    EXPECT_FALSE(exported.is_exported(exported.text + " "));
    Json other = Json::parse(exported.text);
    other["transformers_version"] = "5.0.0";
    EXPECT_FALSE(exported.is_exported(other.dump(2) + "\n"));
    other.erase("transformers_version");
    other.erase("torch_dtype");
    EXPECT_FALSE(exported.is_exported(other.dump(2) + "\n"));
  }
}

absl::StatusOr<OrderedJson> ParseHf(absl::string_view text,
                                    const std::string& source) {
  ModelConfig model;
  const absl::Status read = ParsePretrained(text, source, &model);
  if (!read.ok()) return read;
  return model.architecture->ToJson();
}

absl::StatusOr<OrderedJson> ReadHf(const std::string& directory) {
  ModelConfig model;
  model.pretrained = directory;
  std::vector<std::string> notes;
  const absl::Status read = LoadPretrained(&model, &notes);
  if (!read.ok()) return read;
  return model.architecture->ToJson();
}

std::string ErrorOf(absl::string_view text) {
  auto config = ParseHf(text, "a/config.json");
  EXPECT_FALSE(config.ok()) << text;
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(config.status().message()),
              HasSubstr("a/config.json"));
  return std::string(config.status().message());
}

TEST(HfConfig, ReadsWhatTransformersWrites) {
  auto c = ReadHf("tests/fixtures/gpt2_c/hf");
  ASSERT_TRUE(c.ok()) << c.status();
  Gpt2Config expected;
  expected.n_layer = 3;
  expected.n_head = 4;
  expected.n_embd = 48;
  expected.n_inner = 100;
  expected.n_positions = 33;
  expected.vocab_size = 256;
  expected.resid_pdrop = expected.embd_pdrop = expected.attn_pdrop = 0;
  EXPECT_EQ(*c, expected.ToJson());

  auto b = ReadHf("tests/fixtures/gpt2_b/hf");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ((*b)["tie_word_embeddings"], false);
  EXPECT_EQ((*b)["n_inner"], nullptr);
}

TEST(HfConfig, TakesTransformersDefaults) {
  auto config = ParseHf(R"({"model_type":"gpt2"})", "x");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config, Gpt2Config().ToJson());
}

// The config.json that OpenAI's GPT-2 has on the hub: old keys and all.
TEST(HfConfig, ReadsTheOriginalsConfig) {
  auto config = ParseHf(R"({
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1,
    "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024,
    "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
    "resid_pdrop": 0.1, "summary_activation": null,
    "summary_first_dropout": 0.1, "summary_proj_to_labels": true,
    "summary_type": "cls_index", "summary_use_proj": true,
    "task_specific_params": {
      "text-generation": {"do_sample": true, "max_length": 50}},
    "vocab_size": 50257})",
                        "x");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config, Gpt2Config().ToJson());
}

TEST(HfConfig, RefusesWhatItCannotDoByName) {
  const struct {
    const char* rest;
    const char* why;
  } cases[] = {
      {R"("activation_function":"quick_gelu")", "gelu_pytorch_tanh"},
      {R"("scale_attn_weights":false)", "scale_attn_weights"},
      {R"("scale_attn_by_inverse_layer_idx":true)",
       "scale_attn_by_inverse_layer_idx"},
      {R"("add_cross_attention":true)", "add_cross_attention"},
      {R"("is_encoder_decoder":true)", "is_encoder_decoder"},
      {R"("hidden_size":64)", "n_embd"},
      {R"("num_hidden_layers":6)", "n_layer"},
      {R"("n_layer":"12")", "n_layer"},
      {R"("n_layer":-1)", "n_layer"},
      {R"("n_embd":100,"n_head":3)", "n_embd"},
      {R"("attn_pdrop":1.5)", "attn_pdrop"},
      {R"("n_head":2,"n_head":4)", "\"n_head\" appears twice"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(
        ErrorOf(absl::StrCat(R"({"model_type":"gpt2",)", test.rest, "}")),
        HasSubstr(test.why));
  }
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("model_type"));
  EXPECT_THAT(ErrorOf(R"({"model_type":"deberta"})"),
              HasSubstr("\"deberta\" is not supported; only \"gpt2\", "));
  EXPECT_THAT(ErrorOf(R"({"model_type":"gemma2"})"),
              HasSubstr("\"gemma2\" is not supported (its token embeddings are "
                        "scaled and its logits have a soft cap, which no "
                        "operator does); only \"gpt2\", "));
  EXPECT_THAT(ErrorOf("{"), HasSubstr("not valid JSON"));
  ErrorOf("[]");
  ErrorOf("3");
}

TEST(HfConfig, AcceptsNeutralValuesOfUnsupportedOptions) {
  EXPECT_TRUE(ParseHf(R"({"model_type":"gpt2",
      "activation_function":"gelu_pytorch_tanh", "scale_attn_weights":true,
      "scale_attn_by_inverse_layer_idx":false, "add_cross_attention":false,
      "reorder_and_upcast_attn":true, "hidden_size":768, "n_embd":768})",
                      "x")
                  .ok());
}

TEST(HfConfig, GivesBackWhatItWrites) {
  const uint32_t seed = 7;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> unit(0, 1);
  TemporaryDirectory dir;
  for (int round = 0; round < 50; ++round) {
    Gpt2Config config;
    config.n_layer = 1 + random() % 20;
    config.n_head = 1 + random() % 20;
    config.n_embd = config.n_head * (1 + random() % 100);
    config.n_inner = random() % 2 == 0 ? 0 : 1 + random() % 5000;
    config.n_positions = 1 + random() % 5000;
    config.vocab_size = 1 + random() % 100000;
    config.resid_pdrop = unit(random);
    config.embd_pdrop = unit(random);
    config.attn_pdrop = unit(random);
    config.layer_norm_epsilon = 1e-5 * (0.1 + unit(random));
    config.initializer_range = unit(random);
    config.tie_word_embeddings = random() % 2 == 0;
    ModelConfig model;
    model.type = "gpt2";
    model.architecture = std::make_shared<Gpt2Config>(config);
    WriteFile(dir.path() + "/config.json", HfConfigText(model));
    auto read = ReadHf(dir.path());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, config.ToJson()) << HfConfigText(model);
  }
}

TEST(HfConfig, NamesAMissingFile) {
  TemporaryDirectory dir;
  const absl::Status missing = ReadHf(dir.path()).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr(dir.path() + "/config.json"));
  WriteFile(dir.path() + "/config.json", std::string(2 << 20, ' '));
  EXPECT_THAT(std::string(ReadHf(dir.path()).status().message()),
              HasSubstr("more than 1048576 bytes"));
}

}  // namespace
}  // namespace castor::models
