// castor generate and castor evaluate, on a model that was trained here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;

class GenerateTest : public CliTest {
 protected:
  GenerateTest() {
    Json config = SmallConfig();
    config["data"]["validation_fraction"] = 0.25;
    config["eval_interval"] = 6;
    // All 62 samples: 999 / 16 of the last 1,000 tokens.
    config["eval_batches"] = 31;
    const ProcessResult trained = Train(config, {"--summary", "train.json"});
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
  }
  Json Read(const std::string& name) const {
    return Json::parse(ReadFile(Path(name)));
  }
  ProcessResult Generate(std::vector<std::string> args) const {
    args.insert(args.begin(), {"generate", "out", "--prompt", "the "});
    args.insert(args.end(), {"--summary", "text.json"});
    return Castor(args);
  }
};

TEST_F(GenerateTest, GivesTheSameTextAtEveryBudget) {
  const ProcessResult free = Generate({"--max-new-tokens", "12"});
  ASSERT_EQ(free.exit_code, 0) << free.err;
  EXPECT_EQ(free.out.substr(0, 4), "the ");
  const Json text = Read("text.json");
  EXPECT_EQ(text["prompt_ids"], Json({'t', 'h', 'e', ' '}));
  EXPECT_EQ(text["ids"].size(), 12u);
  const int64_t smallest = text["smallest_device_budget_bytes"];
  const std::string budget = "memory.device_memory=";
  const ProcessResult least = Generate(
      {"--max-new-tokens", "12", "--set", budget + std::to_string(smallest),
       "--set", "memory.placement_policy=auto"});
  ASSERT_EQ(least.exit_code, 0) << least.err;
  EXPECT_EQ(least.out, free.out);
  EXPECT_LE(Read("text.json")["device_peak_bytes"], smallest);
  const ProcessResult refused = Generate(
      {"--max-new-tokens", "12", "--set", budget + std::to_string(smallest - 1),
       "--set", "memory.placement_policy=auto"});
  ExpectUserError(refused);
  EXPECT_THAT(refused.err, HasSubstr("does not fit"));
}

TEST_F(GenerateTest, DrawsAsTheSeedSays) {
  const std::vector<std::string> hot = {
      "--temperature", "3", "--top-p", "0.9", "--max-new-tokens", "12"};
  const auto seeded = [&](const char* seed) {
    std::vector<std::string> args = hot;
    args.insert(args.end(), {"--seed", seed});
    const ProcessResult result = Generate(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Read("text.json")["ids"];
  };
  const Json one = seeded("1");
  EXPECT_EQ(seeded("1"), one);
  EXPECT_NE(seeded("2"), one);
  for (const char* none : {"9223372036854775808", "-1", "1.5"}) {
    const ProcessResult refused = Generate({"--seed", none});
    ExpectUserError(refused);
    EXPECT_THAT(refused.err, HasSubstr("from 0 to 9223372036854775807"));
  }
}

TEST_F(GenerateTest, RefusesWhatItCannotDo) {
  const ProcessResult long_text = Generate({"--max-new-tokens", "100"});
  ExpectUserError(long_text);
  EXPECT_THAT(long_text.err, HasSubstr("n_positions): at most 13 fit"));
  EXPECT_EQ(Generate({"--max-new-tokens", "13"}).exit_code, 0);
  ExpectUserError(Generate({"--max-new-tokens", "14"}));
  const ProcessResult long_prompt =
      Castor({"generate", "out", "--prompt", "a prompt of seventeen"});
  ExpectUserError(long_prompt);
  EXPECT_THAT(long_prompt.err, HasSubstr("--prompt: its 21 tokens are more "
                                         "than the model's 16 positions"));
  const ProcessResult no_token =
      Castor({"generate", "out", "--prompt", "caf\xc3\xa9"});
  ExpectUserError(no_token);
  EXPECT_THAT(no_token.err, HasSubstr("without a tokenizer bytes are tokens, "
                                      "and the model knows only 128, not 195"));
  ExpectUserError(Castor({"generate", "out", "--prompt", ""}));
  ExpectUserError(Castor({"generate", "nowhere", "--prompt", "a"}));
  ExpectUserError(Generate({"--tokenizer", "nowhere"}));
  ExpectUserError(Generate({"--temperature", "-1"}));
}

// Evaluating the checkpoint gives the figures that training gave for its last
// step.
TEST_F(GenerateTest, EvaluatesACheckpointAsTheRunDid) {
  const ProcessResult evaluated =
      Castor({"evaluate", "run.json", "--checkpoint", "latest", "--summary",
              "evaluation.json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const Json found = Read("evaluation.json");
  const double loss = found["loss"];
  EXPECT_NEAR(found["perplexity"], std::exp(loss), 1e-9 * std::exp(loss));
  EXPECT_EQ(found["samples"], 62);
  EXPECT_NEAR(loss, Read("train.json")["evaluations"].back()["loss"], 1e-6);
  const ProcessResult first = Castor({"evaluate", "run.json", "--samples", "1",
                                      "--summary", "evaluation.json"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(Read("evaluation.json")["samples"], 1);
  EXPECT_EQ(Read("evaluation.json")["labels"], 16);
  // Untrained, it is worse.
  const ProcessResult untrained =
      Castor({"evaluate", "run.json", "--summary", "evaluation.json"});
  ASSERT_EQ(untrained.exit_code, 0) << untrained.err;
  EXPECT_GT(Read("evaluation.json")["loss"], loss);
  ExpectUserError(Castor({"evaluate", "run.json", "--checkpoint", "nowhere"}));
}

// Every command that reads a model of which one value is damaged says so.
TEST_F(GenerateTest, TellsOfWeightsThatAreNoNumbers) {
  ASSERT_EQ(Castor({"export", "out", "hf"}).exit_code, 0);
  std::string weights = ReadFile(Path("hf/model.safetensors"));
  // The last value of the last tensor, after all headers.
  weights.replace(weights.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));
  WriteFile(Path("hf/model.safetensors"), weights);
  Json config = SmallConfig();
  config["model"] = {{"pretrained", "hf"}};
  config["data"]["tokenizer"] = "bytes";
  WriteConfig(config);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"train", "run.json"},
        {"evaluate", "run.json"},
        {"generate", "hf", "--prompt", "a", "--max-new-tokens", "2",
         "--tokenizer", "bytes"}}) {
    const ProcessResult result = Castor(command);
    ExpectUserError(result);
    EXPECT_THAT(result.err,
                HasSubstr("hf/model.safetensors: tensor \"transformer."));
    EXPECT_THAT(result.err, HasSubstr("holds nan at ["));
  }
}

// An evaluation follows the plan that was printed, not a warm-up's careful one:
// where there is room for everything, everything is on the device.
TEST_F(GenerateTest, EvaluatesOnThePlanThatItPrints) {
  const auto peak = [&](const std::string& policy, Json* found) {
    const ProcessResult evaluated =
        Castor({"evaluate", "run.json", "--summary", "evaluation.json", "--set",
                "memory.device_memory=unlimited", "--set",
                "memory.placement_policy=" + policy});
    EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
    *found = Read("evaluation.json");
    EXPECT_EQ((*found)["device_peak_bytes"],
              (*found)["predicted_device_peak_bytes"])
        << policy;
    return (*found)["device_peak_bytes"].get<int64_t>();
  };
  Json automatic, everything, least;
  EXPECT_EQ(peak("auto", &automatic), peak("cuda", &everything));
  EXPECT_LT(peak("cpu", &least), peak("cuda", &everything));
  EXPECT_EQ(automatic["loss"], everything["loss"]);
  EXPECT_EQ(automatic["loss"], least["loss"]);
}

}  // namespace
}  // namespace castor::testing
