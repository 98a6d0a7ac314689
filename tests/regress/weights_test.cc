// Reports about directories of models: what is in the files of weights and of
// the configuration, and what was taken for something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/cli/cli_test_base.h"
#include "tests/regress/small_model.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class WeightsTest : public CliTest {
 protected:
  WeightsTest() {
    // Only tokens below 32: half of the rows of an embedding are never used.
    std::string tokens;
    for (int i = 0; i < 200; ++i) {
      tokens += static_cast<char>(i * 7 % 32);
      tokens += '\0';
    }
    WriteFile(Path("tokens.bin"), tokens);
    WriteConfig(Run());
  }
  static Json Run() {
    return {{"model", {{"pretrained", "m"}}},
            {"data",
             {{"train", "tokens.bin"},
              {"token_type", "uint16"},
              {"sequence_length", 8}}},
            {"steps", 2},
            {"train_batch_size", 2},
            {"checkpoint", {{"dir", "out"}}},
            {"device", {{"type", "host"}, {"threads", 1}}}};
  }
  void Write(const Json& config, const SmallTensors& tensors) const {
    WriteSmallModel(Path("m"), config, tensors);
  }
  // Expects that each command that would compute with the model is refused.
  void ExpectRefused(const std::vector<std::string>& commands,
                     const ::testing::Matcher<std::string>& why) const {
    for (const std::string& command : commands) {
      const ProcessResult result =
          command == "generate"
              ? Castor({"generate", "m", "--prompt", "!", "--tokenizer",
                        "bytes", "--max-new-tokens", "2"})
              : Castor({command, "run.json"});
      SCOPED_TRACE(command);
      ExpectUserError(result);
      EXPECT_THAT(result.err, why);
      EXPECT_THAT(result.out, Not(HasSubstr("step 1")));
    }
  }
  double Loss(const std::string& model) const {
    const ProcessResult result =
        Castor({"evaluate", "run.json", "--set", "model.pretrained=" + model,
                "--summary", "loss.json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(ReadFile(Path("loss.json")))["loss"];
  }
};

// A row of the embedding that the data never use was NaN in the file: 200 steps
// trained with finite losses, and then nothing could be saved.
TEST_F(WeightsTest, ValuesThatAreNoNumbersAreRefusedBeforeTheFirstStep) {
  const Json config = SmallModelConfig("gpt2");
  const SmallTensors good = SmallModelTensors(config);
  const struct {
    const char* tensor;
    int64_t element;
    float value;
    const char* what;
  } cases[] = {
      {"transformer.wte.weight", 60 * 8 + 3, kNan, "holds nan at [60, 3]"},
      {"transformer.wpe.weight", 31 * 8, kInfinity, "holds inf at [31, 0]"},
      {"transformer.h.0.mlp.c_fc.bias", 11, -kInfinity, "holds -inf at [11]"},
  };
  for (const auto& test : cases) {
    SmallTensors tensors = good;
    tensors[test.tensor].values[test.element] = test.value;
    Write(config, tensors);
    ExpectRefused({"train", "evaluate", "generate"},
                  AllOf(HasSubstr("m/model.safetensors: tensor \"" +
                                  std::string(test.tensor) + "\""),
                        HasSubstr(test.what)));
    EXPECT_FALSE(Exists("out/step-00000002.castor"));
  }
  // The greatest numbers are numbers.
  SmallTensors tensors = good;
  tensors["transformer.wpe.weight"].values[31 * 8] =
      std::numeric_limits<float>::max();
  Write(config, tensors);
  EXPECT_EQ(Castor({"train", "run.json"}).exit_code, 0);
}

// config.json ties the head to the embedding, of GPT-2 and OPT by default, and
// the file has a head of its own all the same: it was dropped without a word.
// transformers 5 keeps the two apart, so that the loss is that of the same
// files with "tie_word_embeddings": false.
TEST_F(WeightsTest, AHeadOfItsOwnIsKeptApart) {
  for (const std::string type : {"llama", "gpt2", "opt"}) {
    SCOPED_TRACE(type);
    Json config = SmallModelConfig(type);
    if (type == "llama") config["tie_word_embeddings"] = true;
    SmallTensors tensors = SmallModelTensors(config);
    const std::string embedding = type == "llama" ? "model.embed_tokens.weight"
                                  : type == "gpt2"
                                      ? "transformer.wte.weight"
                                      : "model.decoder.embed_tokens.weight";
    tensors["lm_head.weight"] = SmallValues({64, 8}, 99);
    Write(config, tensors);
    config["tie_word_embeddings"] = false;
    WriteSmallModel(Path("untied"), config, tensors);
    EXPECT_EQ(Loss("m"), Loss("untied"));

    const ProcessResult trained = Castor({"train", "run.json"});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    EXPECT_THAT(trained.out,
                AllOf(HasSubstr("note: "), HasSubstr("lm_head.weight"),
                      HasSubstr("tie_word_embeddings")));
    const ProcessResult plan = Castor({"plan", "run.json"});
    EXPECT_EQ(plan.exit_code, 0) << plan.err;
    EXPECT_THAT(plan.out, HasSubstr("lm_head.weight"));
    // A checkpoint of it is one of a model with a head, and is resumed.
    EXPECT_EQ(
        Castor({"train", "run.json", "--resume", "latest", "--set", "steps=3"})
            .exit_code,
        0);
    const ProcessResult exported = Castor({"export", "out", "hf"});
    ASSERT_EQ(exported.exit_code, 0) << exported.err;
    EXPECT_EQ(
        Json::parse(ReadFile(Path("hf/config.json")))["tie_word_embeddings"],
        false);
    const auto shapes = ShapesIn(Path("hf/model.safetensors"));
    EXPECT_TRUE(shapes.contains("lm_head.weight"));
    EXPECT_TRUE(shapes.contains(embedding));
    for (const char* made : {"out", "hf"}) {
      std::filesystem::remove_all(Path(made));
    }
  }
}

// A copy of the embedding under the head's name is the tied head, as older
// programs saved it; and a file may have the head's name alone.
TEST_F(WeightsTest, ACopyOfTheEmbeddingIsTheTiedHead) {
  for (const std::string type : {"gpt2", "opt"}) {
    SCOPED_TRACE(type);
    const Json config = SmallModelConfig(type);
    SmallTensors tensors = SmallModelTensors(config);
    const std::string embedding = type == "gpt2"
                                      ? "transformer.wte.weight"
                                      : "model.decoder.embed_tokens.weight";
    WriteSmallModel(Path("tied"), config, tensors);
    tensors["lm_head.weight"] = tensors[embedding];
    Write(config, tensors);
    const ProcessResult trained = Castor({"train", "run.json"});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    EXPECT_THAT(trained.out, Not(HasSubstr("lm_head")));
    ASSERT_EQ(Castor({"export", "out", "hf"}).exit_code, 0);
    EXPECT_FALSE(
        ShapesIn(Path("hf/model.safetensors")).contains("lm_head.weight"));
    EXPECT_EQ(Loss("m"), Loss("tied"));
    tensors.erase(embedding);
    Write(config, tensors);
    EXPECT_EQ(Loss("m"), Loss("tied"));
    for (const char* made : {"out", "hf"}) {
      std::filesystem::remove_all(Path(made));
    }
  }
}

// A corpus was tokenised for hours before missing weights were noticed, and
// castor plan never did. Here the data are missing, too, and are not asked for.
TEST_F(WeightsTest, WeightsAreCheckedBeforeData) {
  Json run = Run();
  run["data"]["train"] = "nowhere.bin";
  WriteConfig(run);
  const std::vector<std::string> commands = {"train", "evaluate", "plan"};
  const Json config = SmallModelConfig("llama");
  SmallTensors tensors = SmallModelTensors(config);
  tensors["lm_head.weight"] = SmallValues({64, 8}, 99);
  Write(config, tensors);
  ExpectRefused(commands, HasSubstr("nowhere.bin"));
  std::filesystem::remove(Path("m/model.safetensors"));
  ExpectRefused(commands, AllOf(HasSubstr("model.pretrained: no weights in"),
                                Not(HasSubstr("nowhere"))));
  SmallTensors wrong = tensors;
  wrong["model.norm.weight"] = SmallValues({9}, 1);
  Write(config, wrong);
  ExpectRefused(commands, HasSubstr("\"model.norm.weight\" is [9], want [8]"));
  wrong = tensors;
  wrong.erase("lm_head.weight");
  Write(config, wrong);
  ExpectRefused(commands, HasSubstr("missing: lm_head.weight"));
  // The sizes alone can be planned without weights.
  run["data"]["train"] = "tokens.bin";
  run["model"] = {{"from_config", "m"}};
  WriteConfig(run);
  std::filesystem::remove(Path("m/model.safetensors"));
  EXPECT_EQ(Castor({"plan", "run.json"}).exit_code, 0);
}

// A checkpoint has its own values: a run goes on without those that it began
// with.
TEST_F(WeightsTest, ARunGoesOnWithoutTheFirstWeights) {
  const Json config = SmallModelConfig("gpt2");
  Write(config, SmallModelTensors(config));
  ASSERT_EQ(Castor({"train", "run.json"}).exit_code, 0);
  std::filesystem::remove(Path("m/model.safetensors"));
  const ProcessResult result =
      Castor({"train", "run.json", "--resume", "latest", "--set", "steps=3"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(
      Castor({"evaluate", "run.json", "--checkpoint", "latest"}).exit_code, 0);
}

// model.safetensors was a git-lfs pointer, or a web page, and the message spoke
// of a header of 2336927755350992246 bytes.
TEST_F(WeightsTest, WhatCameInThePlaceOfADownloadIsNamed) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 24716\n";
  const std::string page = "<!DOCTYPE html>\n<html>\n<head>";
  const Json config = SmallModelConfig("gpt2");
  const std::vector<std::string> commands = {"train", "evaluate", "plan",
                                             "generate"};
  for (const char* name : {"model.safetensors", "config.json"}) {
    Write(config, SmallModelTensors(config));
    WriteFile(Path(std::string("m/") + name), pointer);
    ExpectRefused(commands, AllOf(HasSubstr(std::string("m/") + name +
                                            " is a git-lfs pointer"),
                                  HasSubstr("git lfs pull")));
    WriteFile(Path(std::string("m/") + name), page);
    ExpectRefused(commands,
                  HasSubstr(std::string("m/") + name + " is a web page"));
  }
  Write(config, {});
  std::filesystem::rename(Path("m/model.safetensors"), Path("m/a.safetensors"));
  WriteFile(Path("m/model.safetensors.index.json"), pointer);
  ExpectRefused(commands,
                HasSubstr("model.safetensors.index.json is a git-lfs"));
}

// The directory was an adapter's, or another program's checkpoint, and the
// message asked for a config.json.
TEST_F(WeightsTest, OtherKindsOfDirectoriesAreNamed) {
  const std::vector<std::string> commands = {"train", "evaluate", "plan",
                                             "generate"};
  std::filesystem::create_directory(Path("m"));
  WriteFile(Path("m/adapter_model.safetensors"), "");
  WriteFile(Path("m/adapter_config.json"),
            R"({"peft_type": "LORA", "base_model_name_or_path": "org/base"})");
  const auto adapter = AllOf(HasSubstr("an adapter of PEFT's"),
                             HasSubstr("its base is \"org/base\""),
                             HasSubstr("merge_and_unload"));
  ExpectRefused(commands, adapter);
  // With the base's config.json copied beside it, too.
  WriteFile(Path("m/config.json"), SmallModelConfig("gpt2").dump());
  ExpectRefused(commands, adapter);

  std::filesystem::remove_all(Path("m"));
  std::filesystem::create_directories(Path("m/global_step20"));
  WriteFile(Path("m/latest"), "global_step20");
  ExpectRefused(commands, AllOf(HasSubstr("a checkpoint of DeepSpeed's"),
                                HasSubstr("zero_to_fp32")));
  WriteFile(Path("m/config.json"), SmallModelConfig("gpt2").dump());
  ExpectRefused(commands, HasSubstr("zero_to_fp32"));
  WriteFile(Path("m/pytorch_model.bin"), "PK");
  ExpectRefused(commands, AllOf(HasSubstr("a pickle of PyTorch's"),
                                HasSubstr("pytorch_model*.bin")));
}

// Weights beside which an adapter lies are a model of their own, but
// transformers would apply the adapter: that is told.
TEST_F(WeightsTest, AnAdapterBesideWeightsIsTold) {
  const Json config = SmallModelConfig("gpt2");
  Write(config, SmallModelTensors(config));
  WriteFile(Path("m/adapter_config.json"), "{}");
  const ProcessResult result = Castor({"evaluate", "run.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("has an adapter of PEFT's, too, which is "
                                    "not applied"));
}

// A link that leads nowhere, a directory or a pipe in a file's place counted as
// no file: a half-pruned cache lost generation_config.json, or its shards.
TEST_F(WeightsTest, WhatCannotBeReadIsNotTakenForMissing) {
  const Json config = SmallModelConfig("gpt2");
  const auto replace = [&](const std::string& name, auto&& make) {
    std::filesystem::remove_all(Path("m"));
    Write(config, SmallModelTensors(config));
    const std::string path = Path("m/" + name);
    std::filesystem::remove(path);
    make(path);
  };
  const auto link = [](const std::string& path) {
    std::filesystem::create_symlink("../../blobs/gone", path);
  };
  const auto folder = [](const std::string& path) {
    std::filesystem::create_directory(path);
  };
  const auto pipe = [](const std::string& path) {
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  };
  const auto device = [](const std::string& path) {
    std::filesystem::create_symlink("/dev/zero", path);
  };
  const std::vector<std::string> commands = {"train", "evaluate", "plan",
                                             "generate"};
  for (const std::string name : {"config.json", "model.safetensors"}) {
    SCOPED_TRACE(name);
    replace(name, link);
    ExpectRefused(commands, HasSubstr(name + " is a link to ../../blobs/gone"));
    replace(name, folder);
    ExpectRefused(commands, HasSubstr(name + " is a directory"));
    replace(name, pipe);
    ExpectRefused(commands, HasSubstr(name + " is a FIFO"));
    replace(name, device);
    ExpectRefused(commands, HasSubstr(name + " is a device"));
  }
  replace("generation_config.json", link);
  ExpectRefused({"train", "generate"},
                HasSubstr("generation_config.json is a link to"));
  replace("model.safetensors", [&](const std::string&) {
    WriteFile(Path("m/model.safetensors.index.json"),
              R"({"weight_map": {"transformer.wte.weight": "a"}})");
    link(Path("m/a"));
  });
  ExpectRefused(commands, HasSubstr("m/a is a link to"));
}

// DeepSeek-R1-0528-Qwen3-8B's rope_scaling: the hint was partial_rotary_factor,
// which is another thing.
TEST_F(WeightsTest, YarnsAttnFactorIsAskedFor) {
  Json config = SmallModelConfig("qwen3");
  config["rope_scaling"] = {{"rope_type", "yarn"},
                            {"factor", 4.0},
                            {"original_max_position_embeddings", 8},
                            {"attn_factor", 0.8782488562869419}};
  SmallTensors tensors = SmallModelTensors(config);
  for (const char* norm : {"q_norm", "k_norm"}) {
    tensors[std::string("model.layers.0.self_attn.") + norm + ".weight"] =
        SmallValues({4}, 5);
  }
  tensors["lm_head.weight"] = SmallValues({64, 8}, 99);
  Write(config, tensors);
  // transformers: 0.1 ln 4 + 1; vLLM: that times attn_factor.
  ExpectRefused({"train", "evaluate", "plan", "generate"},
                AllOf(HasSubstr("rope_scaling.attn_factor"),
                      HasSubstr("attention_factor"), HasSubstr("1.13863,"),
                      HasSubstr("vLLM"), Not(HasSubstr("partial_rotary"))));
  config["rope_scaling"].erase("attn_factor");
  config["rope_scaling"]["finetuned"] = true;
  Write(config, tensors);
  const ProcessResult result = Castor({"evaluate", "run.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rope_scaling.finetuned"));
  // A key of nobody's has no hint that leads elsewhere.
  config["rope_scaling"]["extrapolation_factor"] = 1;
  Write(config, tensors);
  ExpectRefused({"evaluate"},
                AllOf(HasSubstr("rope_scaling.extrapolation_factor: unknown "
                                "key"),
                      Not(HasSubstr("nearest"))));
}

// Cerebras-GPT is a GPT-2 with the exact GELU, which was refused. The values
// are those of the fixture gpt2_gelu (tests/family_reference_test.cc).
TEST_F(WeightsTest, Gpt2TakesTheExactGelu) {
  Json config = SmallModelConfig("gpt2");
  Write(config, SmallModelTensors(config));
  const double tanh_loss = Loss("m");
  config["activation_function"] = "gelu";
  Write(config, SmallModelTensors(config));
  const double exact_loss = Loss("m");
  EXPECT_NE(exact_loss, tanh_loss);
  EXPECT_NEAR(exact_loss, tanh_loss, 1e-3);
  ASSERT_EQ(Castor({"train", "run.json"}).exit_code, 0);
  ASSERT_EQ(Castor({"export", "out", "hf"}).exit_code, 0);
  EXPECT_EQ(
      Json::parse(ReadFile(Path("hf/config.json")))["activation_function"],
      "gelu");
}

}  // namespace
}  // namespace castor::testing
