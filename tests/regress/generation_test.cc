// Reports about castor generate: which tokenizer it takes, where it stops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/cli_test_base.h"
#include "tests/regress/small_model.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kWords = {
    "<unk>", "the",  "cat",   "sat",   "on",   "mat", "a",    "red", "sun",
    "one",   "two",  "three", "four",  "dog",  "ran", "far",  "to",  "it",
    "and",   "then", "slept", "green", "blue", "old", "moon", "day"};

class GenerationTest : public CliTest {
 protected:
  GenerationTest() {
    WriteFile(Path("lines.jsonl"),
              "{\"text\": \"the cat sat\"}\n{\"text\": \"the dog ran far\"}\n"
              "{\"text\": \"a red sun\"}\n");
    config_ = SmallModelConfig("gpt2");
    tensors_ = SmallModelTensors(config_);
    // The other tokenizer has the same words under other ids.
    std::vector<std::string> turned = kWords;
    std::reverse(turned.begin() + 1, turned.end());
    WriteWordTokenizer(Path("m"), turned, "day");
    WriteWordTokenizer(Path("tk"), kWords, "old");
    WriteConfig({{"model", {{"pretrained", "m"}}},
                 {"data",
                  {{"train", "lines.jsonl"},
                   {"tokenizer", "tk"},
                   {"sequence_length", 4}}},
                 {"steps", 2},
                 {"train_batch_size", 1},
                 {"checkpoint", {{"dir", "out"}}},
                 {"device", {{"type", "host"}, {"threads", 1}}}});
  }
  void WriteModel() const { WriteSmallModel(Path("m"), config_, tensors_); }
  // A model whose likeliest next token is always `token`: all hidden states
  // become the shift of the last norm, which is that token's row alone.
  void AlwaysSay(int64_t token) {
    auto& gain = tensors_["transformer.ln_f.weight"].values;
    auto& shift = tensors_["transformer.ln_f.bias"].values;
    auto& rows = tensors_["transformer.wte.weight"].values;
    for (int64_t i = 0; i < 8; ++i) {
      gain[i] = 0;
      shift[i] = 4;
      rows[token * 8 + i] = 1;
    }
    WriteModel();
  }
  ProcessResult Generate(std::vector<std::string> args) const {
    args.insert(args.begin(), "generate");
    args.insert(args.end(), {"--prompt", "the cat", "--max-new-tokens", "5",
                             "--summary", "text.json"});
    return Castor(args);
  }
  // Returns how many tokens come, including the one that ends the text.
  size_t NewTokens(const std::vector<std::string>& args) const {
    const ProcessResult result = Generate(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(ReadFile(Path("text.json")))["ids"].size();
  }

  Json config_;
  SmallTensors tensors_;
};

// Trained with data.tokenizer of another directory than the model's: the export
// had the model's, so that it read and said other words than its checkpoint.
TEST_F(GenerationTest, AnExportHasTheTokenizerOfItsRun) {
  WriteModel();
  WriteFile(Path("m/generation_config.json"), R"({"max_length": 20})");
  const ProcessResult trained = Castor({"train", "run.json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  // Neither directory is needed any more.
  const std::string tokenizer = ReadFile(Path("tk/tokenizer.json"));
  const std::string settings = ReadFile(Path("tk/tokenizer_config.json"));
  std::filesystem::remove_all(Path("tk"));
  std::filesystem::remove_all(Path("m"));
  const ProcessResult exported = Castor({"export", "out", "hf"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_EQ(ReadFile(Path("hf/tokenizer.json")), tokenizer);
  EXPECT_EQ(ReadFile(Path("hf/tokenizer_config.json")), settings);
  EXPECT_EQ(ReadFile(Path("hf/generation_config.json")),
            R"({"max_length": 20})");
  const ProcessResult of_export = Generate({"hf"});
  const Json ids = Json::parse(ReadFile(Path("text.json")));
  const ProcessResult of_checkpoint = Generate({"out"});
  ASSERT_EQ(of_checkpoint.exit_code, 0) << of_checkpoint.err;
  EXPECT_EQ(of_export.out, of_checkpoint.out);
  EXPECT_EQ(ids["prompt_ids"], Json({1, 2}));
}

// The same where the model's directory has no tokenizer at all, and where the
// run was told that bytes are tokens: then no tokenizer goes with it.
TEST_F(GenerationTest, AnExportHasNoTokenizerOfAnotherRun) {
  WriteModel();
  for (const char* name : {"m/tokenizer.json", "m/tokenizer_config.json"}) {
    std::filesystem::remove(Path(name));
  }
  ASSERT_EQ(Castor({"train", "run.json"}).exit_code, 0);
  ASSERT_EQ(Castor({"export", "out", "hf"}).exit_code, 0);
  EXPECT_EQ(ReadFile(Path("hf/tokenizer.json")),
            ReadFile(Path("tk/tokenizer.json")));

  WriteWordTokenizer(Path("m"), kWords, "");
  WriteFile(Path("bytes.txt"), std::string(300, '!'));
  const ProcessResult trained =
      Castor({"train", "run.json", "--set", "data.train=bytes.txt", "--set",
              "data.tokenizer=bytes", "--set", "checkpoint.dir=of_bytes"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  ASSERT_EQ(Castor({"export", "of_bytes", "plain"}).exit_code, 0);
  EXPECT_FALSE(Exists("plain/tokenizer.json"));
}

// The model's config.json says which token ends a text. With a tokenizer of
// another directory generation went on over it.
TEST_F(GenerationTest, StopsAtTheModelsOwnEnd) {
  config_["eos_token_id"] = 4;
  AlwaysSay(4);
  EXPECT_EQ(NewTokens({"m", "--tokenizer", "tk"}), 1);
  EXPECT_EQ(NewTokens({"m"}), 1);
  ASSERT_EQ(Castor({"train", "run.json", "--set",
                    "optimizer={\"type\":\"AdamW\",\"params\":{\"lr\":0}}"})
                .exit_code,
            0);
  EXPECT_EQ(NewTokens({"out"}), 1);
  EXPECT_EQ(NewTokens({"out", "--tokenizer", "m"}), 1);
  ASSERT_EQ(Castor({"export", "out", "hf"}).exit_code, 0);
  EXPECT_EQ(NewTokens({"hf"}), 1);
}

// Several tokens may end a text, by config.json or by generation_config.json,
// which a checkpoint keeps.
TEST_F(GenerationTest, StopsAtEachOfAList) {
  config_["eos_token_id"] = 3;
  AlwaysSay(5);
  EXPECT_EQ(NewTokens({"m", "--tokenizer", "tk"}), 5);
  WriteFile(Path("m/generation_config.json"), R"({"eos_token_id": [3, 5]})");
  EXPECT_EQ(NewTokens({"m", "--tokenizer", "tk"}), 1);
  ASSERT_EQ(Castor({"train", "run.json", "--set",
                    "optimizer={\"type\":\"AdamW\",\"params\":{\"lr\":0}}"})
                .exit_code,
            0);
  std::filesystem::remove(Path("m/generation_config.json"));
  EXPECT_EQ(NewTokens({"out"}), 1);
  config_["eos_token_id"] = {3, 5};
  WriteModel();
  EXPECT_EQ(NewTokens({"m", "--tokenizer", "tk"}), 1);
  config_["eos_token_id"] = "five";
  WriteModel();
  const ProcessResult refused = Generate({"m"});
  ExpectUserError(refused);
  EXPECT_THAT(refused.err, HasSubstr("config.json: eos_token_id: expected"));
}

// The tokenizer says "old" with its eos_token, and the model's files nothing.
TEST_F(GenerationTest, StopsAtTheTokenizersEnd) {
  AlwaysSay(23);
  ASSERT_EQ(kWords[23], "old");
  EXPECT_EQ(NewTokens({"m", "--tokenizer", "tk"}), 1);
  // The model's own tokenizer calls another token so.
  EXPECT_EQ(NewTokens({"m"}), 5);
}

// Where some logits were not numbers, generate wrote the token of one that was,
// and ended with 0. Weights that are numbers can give such logits, too.
TEST_F(GenerationTest, EndsWhereLogitsAreNoNumbers) {
  tensors_["transformer.ln_f.weight"].values.assign(8, 3e38f);
  WriteModel();
  const ProcessResult evaluated = Castor({"evaluate", "run.json"});
  EXPECT_THAT(evaluated.err, HasSubstr("not finite"));
  for (const char* temperature : {"0", "1"}) {
    const ProcessResult result = Generate({"m", "--temperature", temperature});
    EXPECT_EQ(result.exit_code, evaluated.exit_code);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("castor: the logit of token"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
  }
}

// One of them alone is enough: a row of the head that overflows.
TEST_F(GenerationTest, EndsAtOneLogitThatIsNoNumber) {
  config_["tie_word_embeddings"] = false;
  tensors_["lm_head.weight"] = SmallValues({64, 8}, 99);
  auto& head = tensors_["lm_head.weight"].values;
  std::fill(head.begin() + 40 * 8, head.begin() + 41 * 8, -3e38f);
  auto& shift = tensors_["transformer.ln_f.bias"].values;
  std::fill(shift.begin(), shift.end(), 4.0f);
  WriteModel();
  const ProcessResult result = Generate({"m"});
  ExpectUserError(result);
  EXPECT_THAT(result.err, HasSubstr("the logit of token 40 after 2 tokens is "
                                    "-inf"));
}

}  // namespace
}  // namespace castor::testing
