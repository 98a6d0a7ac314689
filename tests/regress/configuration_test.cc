// Tests which errors of a configuration are found, and how they are reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/test_files.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class Configuration : public CliTest {
 protected:
  // The lines with which `result` refuses, without "castor: ".
  static std::vector<std::string> Errors(const ProcessResult& result) {
    std::vector<std::string> lines = absl::StrSplit(result.err, '\n');
    if (lines.back().empty()) lines.pop_back();
    ExpectUserError(result, static_cast<int>(lines.size()));
    for (std::string& line : lines) line.erase(0, 8);
    return lines;
  }
};

// Somebody moved a configuration from DeepSpeed to castor and was told one
// error a run, four runs in a row. All are said at once, and none that only
// follows from another: with "stpes" for steps neither steps nor the schedule's
// end is missing, and no batch is held against a micro batch that is no number.
TEST_F(Configuration, AllErrorsAreSaidAtOnce) {
  Json config = SmallConfig();
  config.erase("steps");
  config["stpes"] = 100;
  config["train_micro_batch_size_per_gpu"] = "two";
  config["train_batch_size"] = 7;
  config["gradient_clipping"] = -1;
  config["optimizer"]["type"] = "Muon";
  config["optimizer"]["params"] = {{"lr", "high"}, {"momentum", 0.9}};
  config["scheduler"] = {{"type", "WarmupDecayLR"}};
  config["data"]["sequence_length"] = 0;
  EXPECT_THAT(
      Errors(Train(config)),
      UnorderedElementsAre(
          "run.json: stpes: unknown key; the nearest known key is steps",
          "run.json: train_micro_batch_size_per_gpu: expected an integer from "
          "1 "
          "to 1048576, found the string \"two\"",
          "run.json: gradient_clipping: expected a finite number of at least "
          "0.0, found -1",
          StartsWith("run.json: optimizer.type: expected one of \"AdamW\", "),
          "run.json: optimizer.params.lr: expected a number in [0.0, 1e+38], "
          "found the string \"high\"",
          "run.json: data.sequence_length: expected an integer from 1 to "
          "16777216, found 0"));
  EXPECT_EQ(List("out"), std::vector<std::string>{});
}

// The same, of a configuration in which almost nothing stands where it should.
TEST_F(Configuration, SectionsThatAreNoneSayNothingOfTheirKeys) {
  const Json config = {
      {"model", "gpt2"}, {"data", 3}, {"memory", Json::array()}};
  EXPECT_THAT(Errors(Train(config)),
              UnorderedElementsAre(
                  StartsWith("run.json: model: expected an"),
                  StartsWith("run.json: data: expected an"),
                  StartsWith("run.json: memory: expected an"),
                  "run.json: steps: is required, unless num_train_epochs is "
                  "given",
                  StartsWith("run.json: train_batch_size: is "
                             "required")));
}

// --set epochs=3 was blamed on base.json, which had no such key.
TEST_F(Configuration, TheOptionIsNamedThatSetWhatIsWrong) {
  EXPECT_THAT(Errors(Train(SmallConfig(), {"--set", "epochs=3"})),
              ElementsAre(StartsWith("--set epochs=3: epochs: unknown key")));
  // Each error has its own source; so has an option that says nothing.
  Json config = SmallConfig();
  config["seed"] = -1;
  EXPECT_THAT(
      Errors(Train(config, {"--set", "optimizer.params.lr=fast", "--set",
                            "memory={\"prefetch\": 1}", "--set", "steps"})),
      UnorderedElementsAre(
          StartsWith("run.json: seed: expected"),
          StartsWith("--set optimizer.params.lr=fast: optimizer.params.lr: "),
          StartsWith("--set memory={\\\"prefetch\\\": 1}: memory.prefetch: "),
          StartsWith("--set steps: expected KEY=VALUE")));
  // A file's value that is none beside one that was set has two sources.
  config = SmallConfig();
  config["train_batch_size"] = 4;
  EXPECT_THAT(
      Errors(Train(config, {"--set", "train_micro_batch_size_per_gpu=3"})),
      ElementsAre(
          StartsWith("run.json, --set train_micro_batch_size_per_gpu=3: "
                     "train_batch_size: 4 is not 6")));
}

// A YAML file was refused with "invalid literal; last read: 'b'".
TEST_F(Configuration, FilesInOtherLanguagesAreNamed) {
  const struct {
    std::string name, text, language;
  } kCases[] = {
      {"run.yaml", "base_model: gpt2\nsteps: 3\n", "YAML"},
      {"named.json", "# fine-tuning\n\nbase_model: gpt2\n", "YAML"},
      {"list.txt", "---\n- a\n", "YAML"},
      {"run.toml", "[model]\ntype = \"gpt2\"\n", "TOML"},
      {"toml.conf", "steps = 3\n[model]\n", "TOML"},
      {"config.py", "steps = 3\n", "Python"},
      {"python.conf", "steps = 3\nshuffle = True\n", "Python"},
      {"script", "import torch\n", "Python"},
  };
  for (const auto& file : kCases) {
    WriteFile(Path(file.name), file.text);
    for (const char* command : {"train", "plan", "evaluate"}) {
      EXPECT_THAT(Errors(Castor({command, file.name})),
                  ElementsAre(StartsWith(absl::StrCat(
                      file.name, ": this is ", file.language,
                      ", and a configuration of castor is one JSON object"))));
    }
  }
  // JSON with a slip is called no other language.
  for (const char* text :
       {"{\"steps\": 3,}", "{steps: 3}", "[1 2]", "", "hello"}) {
    WriteFile(Path("slip.json"), text);
    EXPECT_THAT(Errors(Castor({"train", "slip.json"})),
                ElementsAre(StartsWith("slip.json: not valid JSON")));
  }
}

// All of it holds whoever reads the configuration.
TEST_F(Configuration, EveryCommandSaysAllErrors) {
  Json config = SmallConfig();
  config["steps"] = 1;
  ASSERT_EQ(Train(config).exit_code, 0);
  const std::vector<std::string> sets = {"--set", "seed=x", "--set",
                                         "device.threads=0"};
  const auto expect = [&](std::vector<std::string> args) {
    args.insert(args.end(), sets.begin(), sets.end());
    const ProcessResult result = Castor(args);
    EXPECT_THAT(
        Errors(result),
        UnorderedElementsAre(StartsWith("--set seed=x: seed: expected"),
                             StartsWith("--set device.threads=0: device.")))
        << args[0];
  };
  expect({"train", "run.json"});
  expect({"plan", "run.json"});
  expect({"evaluate", "run.json"});
  expect({"generate", "out", "--prompt", "the"});
  expect({"launch", "--nproc", "2", "run.json"});
  // mpirun adds words of its own behind those of the program.
  ProcessResult ranks = TrainOnRanks(2, config, sets);
  ranks.err.erase(std::min(ranks.err.find("-----"), ranks.err.size()));
  EXPECT_THAT(Errors(ranks),
              UnorderedElementsAre(StartsWith("--set seed=x: seed: expected"),
                                   StartsWith("--set device.threads=0: ")));
}

// A model's own configuration is read in the same way.
TEST_F(Configuration, AllErrorsOfAModelAreSaidAtOnce) {
  std::filesystem::create_directory(Path("hf"));
  WriteFile(Path("hf/config.json"), R"({
    "model_type": "gpt2", "n_layer": "two", "n_head": 0, "n_embd": 15,
    "scale_attn_weights": false})");
  Json config = SmallConfig();
  config["model"] = {{"from_config", "hf"}};
  const std::vector<std::string> errors = Errors(Train(config));
  EXPECT_THAT(errors,
              Each(StartsWith(absl::StrCat(
                  "model.from_config: ", Path("hf/config.json"), ": "))));
  EXPECT_THAT(errors,
              UnorderedElementsAre(HasSubstr("n_layer: expected"),
                                   HasSubstr("n_head: expected"),
                                   HasSubstr("scale_attn_weights: false")));
}

}  // namespace
}  // namespace castor::testing
