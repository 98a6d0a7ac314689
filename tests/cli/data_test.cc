// Text and lines as training data, from the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class DataTest : public CliTest {
 protected:
  DataTest() { WriteTokenizer("words", 0); }

  // A tokenizer of SmallText's words, their ids turned by `turn`, whose
  // documents end with </s>, 20.
  void WriteTokenizer(const std::string& name, int turn) const {
    Json vocabulary = {{"<unk>", 0}, {"</s>", 20}};
    const std::vector<std::string> words = {
        "the",  "light", "of",   "day", "and", "he", "said",
        "unto", "a",     "king", "was", "in",  "."};
    for (size_t i = 0; i < words.size(); ++i) {
      vocabulary[words[(i + turn) % words.size()]] = i + 1;
    }
    const Json tokenizer = {{"version", "1.0"},
                            {"added_tokens", Json::array()},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", {{"type", "Whitespace"}}},
                            {"post_processor", nullptr},
                            {"decoder", nullptr},
                            {"model",
                             {{"type", "WordLevel"},
                              {"vocab", vocabulary},
                              {"unk_token", "<unk>"}}}};
    std::filesystem::create_directory(Path(name));
    WriteFile(Path(name + "/tokenizer.json"), tokenizer.dump());
    WriteFile(Path(name + "/tokenizer_config.json"),
              R"({"eos_token": {"content": "</s>"}})");
  }
  // SmallText as documents of some words, one a line.
  std::string Documents() const {
    std::string lines;
    const std::string text = SmallText(4000);
    for (size_t at = 0; at < text.size(); at += 100) {
      lines += Json({{"text", text.substr(at, 100)}}).dump() + "\n";
    }
    return lines;
  }
  static Json Config(const std::string& train, const std::string& tokenizer) {
    Json config = SmallConfig();
    config["data"]["train"] = train;
    if (!tokenizer.empty()) config["data"]["tokenizer"] = tokenizer;
    return config;
  }
  int Caches() const {
    const std::vector<std::string> names = List("");
    return static_cast<int>(
        std::count_if(names.begin(), names.end(), [](const std::string& name) {
          return name.find(".castor-tokens-") != std::string::npos;
        }));
  }
};

TEST_F(DataTest, TokenisesOnceAndGoesOnWithTheSameTokenizerOnly) {
  WriteFile(Path("text.jsonl"), Documents());
  const Json config = Config("text.jsonl", "words");
  const ProcessResult first = Train(config);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("data.train: tokenised \""));
  EXPECT_EQ(Caches(), 1);
  const ProcessResult again =
      Train(config, {"--resume", "latest", "--set", "steps=8"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, Not(HasSubstr("tokenised")));

  WriteTokenizer("other", 3);
  const ProcessResult other =
      Train(config, {"--resume", "latest", "--set", "steps=10", "--set",
                     "data.tokenizer=other"});
  ExpectUserError(other);
  EXPECT_THAT(other.err, AllOf(HasSubstr("other settings (data.train: "),
                               HasSubstr("--resume-changed")));
  EXPECT_EQ(Caches(), 2);
}

TEST_F(DataTest, RanksShareOneCacheAndBits) {
  WriteFile(Path("text.jsonl"), Documents());
  Json config = Config("text.jsonl", "words");
  config["checkpoint"] = false;
  const Json alone = Summary(config);
  for (const std::string& name : List("")) {
    if (name.find(".castor-tokens-") != std::string::npos) {
      std::filesystem::remove(Path(name));
    }
  }
  config["gradient_accumulation_steps"] = 1;
  EXPECT_EQ(Summary(2, config)["parameters_sha256"],
            alone["parameters_sha256"]);
  EXPECT_EQ(Caches(), 1);
}

// Folders, lists, tables and weights, in runs of several epochs.
TEST_F(DataTest, SeveralSourcesAreTheSameToEveryRankAndAfterAResume) {
  std::filesystem::create_directory(Path("mixed"));
  WriteFile(Path("mixed/a.jsonl"), Documents());
  Json list = Json::array();
  for (int i = 0; i < 9; ++i) {
    list.push_back({{"prompt", "the light of the day " + SmallText(10 + i)},
                    {"completion", " he said unto a king"}});
  }
  WriteFile(Path("mixed/b.json"), list.dump(1));
  WriteFile(Path("c.csv"),
            "prompt,completion,id\nthe king,\" said, \"\"a\"\".\",1\n"
            "a light, of the day,2\na day, he said,3\n");
  Json config = Config("mixed", "words");
  config["data"]["train"] = {"mixed", {{"path", "c.csv"}, {"weight", 2.5}}};
  config["data"]["shuffle"] = true;
  config["steps"] = 12;
  config["checkpoint"] = {{"dir", "out"}, {"save_interval", 5}, {"keep", 9}};
  const ProcessResult said = Train(config);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("its records have keys that are not used: "
                                  "\"id\""));
  EXPECT_THAT(said.out, HasSubstr(" learned), "));
  EXPECT_THAT(said.out,
              HasSubstr("the first sample, what is learned of it in [[ ]]: "));
  const Json whole = Summary(config);
  const ProcessResult resumed =
      Train(config, {"--resume", "out/step-00000005.castor", "--summary",
                     Path("resumed.json")});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(Json::parse(ReadFile(Path("resumed.json")))["parameters_sha256"],
            whole["parameters_sha256"]);
  config["checkpoint"] = false;
  config["gradient_accumulation_steps"] = 1;
  EXPECT_EQ(Summary(2, config)["parameters_sha256"],
            whole["parameters_sha256"]);
  // Another share is other data.
  config["data"]["train"][1]["weight"] = 5;
  EXPECT_NE(Summary(2, config)["parameters_sha256"],
            whole["parameters_sha256"]);
}

// Records that share rows, in runs of several epochs.
TEST_F(DataTest, RowsAreTheSameToEveryRankAndAfterAResume) {
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    lines += Json({{"prompt", SmallText(4 + 7 * i % 20)},
                   {"completion", " he said unto a king"}})
                 .dump() +
             "\n";
  }
  WriteFile(Path("prompts.jsonl"), lines);
  Json config = Config("prompts.jsonl", "words");
  config["data"]["packing"] = "rows";
  config["data"]["validation_fraction"] = 0.2;
  config["eval_interval"] = 4;
  config["steps"] = 12;
  config["checkpoint"] = {{"dir", "out"}, {"save_interval", 5}, {"keep", 9}};
  const ProcessResult said = Train(config);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("data.train: 48 samples, of "),
                    HasSubstr(" rows of 16 (data.packing \"rows\"): "),
                    HasSubstr("data.validation: 12 samples, of "),
                    HasSubstr("an epoch: 48 samples in "),
                    HasSubstr("the first sample, what is learned")));
  const Json whole = Summary(config);
  ASSERT_EQ(whole["evaluations"].size(), 3u);
  const ProcessResult resumed =
      Train(config, {"--resume", "out/step-00000005.castor", "--summary",
                     Path("resumed.json")});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const Json rest = Json::parse(ReadFile(Path("resumed.json")));
  EXPECT_EQ(rest["parameters_sha256"], whole["parameters_sha256"]);
  // Those after the step that it went on from.
  ASSERT_EQ(rest["evaluations"].size(), 2u);
  EXPECT_EQ(rest["evaluations"][0], whole["evaluations"][1]);
  EXPECT_EQ(rest["evaluations"][1], whole["evaluations"][2]);
  WriteConfig(config);
  const ProcessResult evaluated = Castor({"evaluate", "run.json"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const ProcessResult plan = Castor({"plan", "run.json"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;

  Json on_ranks = config;
  on_ranks["train_batch_size"] = 4;
  on_ranks.erase("gradient_accumulation_steps");
  EXPECT_EQ(
      Summary(2, on_ranks,
              {"--resume", "out/step-00000005.castor"})["parameters_sha256"],
      whole["parameters_sha256"]);
  // A row for each record is another run.
  const ProcessResult other = Train(
      config,
      {"--resume", "out/step-00000005.castor", "--set", "data.packing=none"});
  ExpectUserError(other);
  EXPECT_THAT(other.err, HasSubstr("data.train: "));
}

class LengthsTest : public DataTest {
 protected:
  // 61 short lines and 3 long ones, of which the longest has 46 tokens.
  LengthsTest() {
    std::string lines;
    for (int i = 0; i < 64; ++i) {
      const int length = i % 20 == 10 ? 40 + i % 50 / 5 : 3 + 5 * i % 13;
      std::vector<int> ids(static_cast<size_t>(length), 1 + i % 100);
      lines += Json({{"input_ids", ids}}).dump() + "\n";
    }
    WriteFile(Path("ids.jsonl"), lines);
    config_ = Config("ids.jsonl", "");
    config_["model"]["n_positions"] = 64;
    config_["data"]["sequence_length"] = 64;
    config_["data"]["validation"] = "ids.jsonl";
    config_["eval_interval"] = 8;
    config_["eval_batches"] = 100;
    config_["steps"] = 40;  // an epoch has 16
    config_["checkpoint"] = {{"dir", "out"}, {"save_interval", 7}, {"keep", 9}};
  }

  Json config_;
};

TEST_F(LengthsTest, BatchesAreTheSameToEveryRankAndAfterAResume) {
  const ProcessResult said =
      Train(config_, {"--summary", Path("whole.json"), "--log-json", "log"});
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("data.train: batches are formed by length"),
                    HasSubstr("in 16 steps of the first epoch padded to 8 "),
                    HasSubstr(" 16 tokens ("), HasSubstr(" 48 tokens ("),
                    HasSubstr("if each had data.sequence_length (64)"),
                    HasSubstr("data.validation: each line is padded to the "
                              "longest, which makes 48 tokens"),
                    HasSubstr("an epoch: 64 samples, ")));
  const Json whole = Json::parse(ReadFile(Path("whole.json")));
  int64_t steps = 0;
  for (const Json& length : whole["lengths"]) {
    steps += length["steps"].get<int64_t>();
    EXPECT_GT(length["step_seconds"], 0);
    EXPECT_LE(length["length"], 48);
  }
  EXPECT_EQ(steps, 40);
  EXPECT_EQ(whole["lengths"].size(), 3u);
  EXPECT_EQ(whole["evaluations"].size(), 5u);
  EXPECT_THAT(ReadFile(Path("log")), HasSubstr("\"length\":48"));
  ASSERT_EQ(Castor({"evaluate", "run.json", "--checkpoint", "latest",
                    "--summary", "evaluated.json"})
                .exit_code,
            0);
  const Json evaluated = Json::parse(ReadFile(Path("evaluated.json")));
  EXPECT_EQ(evaluated["loss"], whole["evaluations"].back()["loss"]);
  const ProcessResult as_json =
      Castor({"evaluate", "run.json", "--checkpoint", "latest", "--json"});
  EXPECT_EQ(as_json.exit_code, 0) << as_json.err;
  EXPECT_EQ(Json::parse(as_json.out, nullptr, false), evaluated);
  Json on_ranks = config_;
  on_ranks["train_batch_size"] = 4;
  on_ranks.erase("gradient_accumulation_steps");
  on_ranks["memory"] = {{"placement_policy", "cpu"}};
  for (const int ranks : {0, 2}) {
    const Json rest =
        Summary(ranks, on_ranks, {"--resume", "out/step-00000021.castor"});
    EXPECT_EQ(rest["parameters_sha256"], whole["parameters_sha256"]);
    EXPECT_EQ(rest["losses"].back(), whole["losses"].back());
    EXPECT_EQ(rest["evaluations"].back(), whole["evaluations"].back());
  }
  // Lines in their order are another run.
  const ProcessResult other = Train(
      config_,
      {"--resume", "out/step-00000021.castor", "--set", "data.shuffle=false"});
  ExpectUserError(other);
  EXPECT_THAT(other.err,
              HasSubstr("batches by length (8, 16, 48) of 64 lines"));
  // 28 samples are no whole batches of 6.
  const ProcessResult changed = Train(
      config_, {"--resume", "out/step-00000007.castor", "--resume-changed",
                "--set", "gradient_accumulation_steps=3"});
  EXPECT_EQ(changed.exit_code, 0) << changed.err;
}

TEST_F(LengthsTest, AllFitOrNoneIsTrained) {
  config_.erase("eval_interval");
  config_.erase("eval_batches");
  config_["data"].erase("validation");
  const ProcessResult refused =
      Train(config_, {"--set", "memory.device_memory=1", "--summary", "s"});
  ExpectUserError(refused);
  const int64_t smallest = Json::parse(
      ReadFile(Path("s")))["refused"]["smallest_device_budget_bytes"];
  const std::string set = "memory.device_memory=";
  // Steps of most batches would fit in a budget in which the longest do not.
  Json short_ones = config_;
  short_ones["data"]["sequence_length"] = 16;
  EXPECT_EQ(
      Train(short_ones, {"--set", absl::StrCat(set, smallest - 256)}).exit_code,
      0);
  std::filesystem::remove_all(Path("out"));
  ExpectUserError(Train(config_, {"--set", absl::StrCat(set, smallest - 256)}));
  EXPECT_FALSE(Exists("out"));
  const ProcessResult works =
      Train(config_, {"--set", absl::StrCat(set, smallest), "--summary", "s"});
  ASSERT_EQ(works.exit_code, 0) << works.err;
  const Json summary = Json::parse(ReadFile(Path("s")));
  EXPECT_LE(summary["device_peak_bytes"], smallest);
  EXPECT_GE(summary["predicted_device_peak_bytes"],
            summary["device_peak_bytes"]);
  // Nothing is tokenised for a plan, so it is of the most that may be needed.
  WriteConfig(config_);
  const ProcessResult plan = Castor({"plan", "run.json"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("batches will be formed by length, and "
                                  "padded to at most 5 lengths"));
}

// Lines that were packed before name their documents, and give the same as
// lines of their own.
TEST_F(DataTest, DocumentsOfALineAreSamplesOfTheirOwn) {
  std::string apart, together;
  for (int i = 0; i < 12; ++i) {
    Json line = {{"input_ids", Json::array()},
                 {"labels", Json::array()},
                 {"position_ids", Json::array()}};
    for (int document = 0; document < 3; ++document) {
      Json one = {{"input_ids", Json::array()}, {"labels", Json::array()}};
      for (int at = 0; at < 2 + (i + document) % 4; ++at) {
        one["input_ids"].push_back(5 * i + document + at);
        one["labels"].push_back(at == 1 ? -100 : 5 * i + document + at);
        line["position_ids"].push_back(at);
      }
      for (const char* key : {"input_ids", "labels"}) {
        line[key].insert(line[key].end(), one[key].begin(), one[key].end());
      }
      apart += one.dump() + "\n";
    }
    together += line.dump() + "\n";
  }
  WriteFile(Path("apart.jsonl"), apart);
  WriteFile(Path("together.jsonl"), together);
  Json config = Config("apart.jsonl", "");
  config["data"]["packing"] = "rows";
  config["checkpoint"] = false;
  const Json expected = Summary(config);
  config["data"]["train"] = "together.jsonl";
  EXPECT_EQ(Summary(config)["parameters_sha256"],
            expected["parameters_sha256"]);
  // Without rows they would see each other.
  config["data"]["packing"] = "none";
  const ProcessResult none = Train(config);
  ExpectUserError(none);
  EXPECT_THAT(none.err, HasSubstr("position_ids: keeps the documents"));
  config["data"]["train"] = "text.txt";
  config["data"]["packing"] = "rows";
  const ProcessResult text = Train(config);
  ExpectUserError(text);
  EXPECT_THAT(text.err, HasSubstr("data.packing \"rows\" has no meaning"));
}

TEST_F(DataTest, TheTextOfAModelsDirectoryHasItsTokenizer) {
  Json config = SmallConfig();
  config["checkpoint"] = {{"dir", "out"}};
  Summary(config);
  ASSERT_EQ(Castor({"export", "out", "hf"}).exit_code, 0);
  std::filesystem::copy(Path("words/tokenizer.json"),
                        Path("hf/tokenizer.json"));
  config["model"] = {{"pretrained", "hf"}};
  config["checkpoint"] = false;
  const ProcessResult words = Train(config);
  EXPECT_EQ(words.exit_code, 0) << words.err;
  EXPECT_THAT(words.out, HasSubstr("data.train: tokenised \""));
  const ProcessResult bytes = Train(config, {"--set", "data.tokenizer=bytes"});
  EXPECT_EQ(bytes.exit_code, 0) << bytes.err;
  EXPECT_THAT(bytes.out, Not(HasSubstr("tokenised")));
}

TEST_F(DataTest, TrainsOnLinesOfTokens) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    const Json line = {{"input_ids", {i, i + 1, i + 2, i + 3}},
                       {"labels", {-100, -100, i + 2, i + 3}}};
    lines += line.dump() + "\n";
  }
  WriteFile(Path("ids.jsonl"), lines + "{\"input_ids\": " +
                                   Json(std::vector<int>(30, 5)).dump() + "}");
  Json config = Config("ids.jsonl", "");
  config["data"]["validation_fraction"] = 0.1;
  config["eval_interval"] = 6;
  const ProcessResult result = Train(config);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // The last 4 lines are the validation data's.
  EXPECT_THAT(result.out, HasSubstr("data.validation: 1 of 4 lines are cut to "
                                    "data.sequence_length (16 tokens)"));
  EXPECT_THAT(result.out, HasSubstr("validation loss"));
  EXPECT_THAT(result.out, Not(HasSubstr("nan")));
}

// Nothing is lost of a run that meets a batch without labels: what was trained
// before it is saved, by all ranks, and goes on once the line is mended.
TEST_F(DataTest, SavesWhereABatchHasNoLabels) {
  const auto lines = [](int unlabelled) {
    std::string text;
    for (int i = 0; i < 24; ++i) {
      Json line = {{"input_ids", {i, i + 1, i + 2}}};
      if (i / 4 == unlabelled) line["labels"] = {-100, -100, -100};
      text += line.dump() + "\n";
    }
    return text;
  };
  Json config = Config("ids.jsonl", "");
  config["data"]["shuffle"] = false;
  config["checkpoint"]["save_interval"] = 0;
  for (const int ranks : {1, 2}) {
    config["train_batch_size"] = 4;
    config["gradient_accumulation_steps"] = 2 / ranks;
    config["checkpoint"]["dir"] = "out" + std::to_string(ranks);
    WriteFile(Path("ids.jsonl"), lines(4));
    const ProcessResult result =
        ranks == 1 ? Train(config) : TrainOnRanks(ranks, config);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.out,
                HasSubstr("data.train: 4 of 24 samples have nothing to learn"));
    EXPECT_THAT(result.err, HasSubstr("step 5 has no loss"));
    EXPECT_THAT(result.out, HasSubstr("/step-00000004.castor"));
    WriteFile(Path("ids.jsonl"), lines(-1));
    config["gradient_accumulation_steps"] = 2;
    const ProcessResult resumed =
        Train(config, {"--resume", "latest", "--resume-changed"});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_THAT(resumed.out, HasSubstr("at step 4"));
  }
}

TEST_F(DataTest, SavesWhereAnEvaluationHasNoLabels) {
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    Json line = {{"input_ids", {i, i + 1, i + 2}}};
    if (i >= 16 && i < 18) line["labels"] = {-100, -100, -100};
    lines += line.dump() + "\n";
  }
  WriteFile(Path("ids.jsonl"), lines);
  Json config = Config("ids.jsonl", "");
  config["data"]["validation_fraction"] = 0.2;
  config["eval_interval"] = 3;
  config["eval_batches"] = 1;  // of two samples: those without labels
  config["checkpoint"]["save_interval"] = 0;
  const ProcessResult result = Train(config);
  ExpectUserError(result);
  EXPECT_THAT(result.err, HasSubstr("the evaluation after step 3 has no loss"));
  EXPECT_THAT(result.out, HasSubstr("/step-00000003.castor"));
}

// Conversations whose answers come after the cut teach nothing: that is said
// before the first step, with what would help.
TEST_F(DataTest, SaysWhichSamplesHaveNothingToLearnFrom) {
  const auto lines = [](int asked, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      std::vector<int> labels(30, 7);
      std::fill_n(labels.begin(), asked, -100);
      text += Json({{"input_ids", std::vector<int>(30, i)}, {"labels", labels}})
                  .dump() +
              "\n";
    }
    return text;
  };
  Json config = Config("ids.jsonl", "");
  config["checkpoint"] = false;
  WriteFile(Path("ids.jsonl"), lines(4, 30) + lines(20, 9) + lines(30, 1));
  const ProcessResult some = Train(config);
  EXPECT_EQ(some.exit_code, 0) << some.err;
  EXPECT_THAT(
      some.out,
      HasSubstr("data.train: 10 of 40 samples have nothing to learn from, for "
                "want of a labelled token among the first 16 "
                "(data.sequence_length): 1 have none at any length; with "
                "data.sequence_length 21 each of the others has one"));
  EXPECT_LT(some.out.find("nothing to learn"), some.out.find("\nstep 1/"));

  WriteFile(Path("ids.jsonl"), lines(20, 9));
  const ProcessResult none = Train(config);
  ExpectUserError(none);
  EXPECT_THAT(none.err,
              AllOf(HasSubstr("data.train: none of its 9 samples has a "),
                    HasSubstr("with data.sequence_length 21 each has one")));
  WriteFile(Path("ids.jsonl"), lines(4, 8) + lines(30, 2));
  config["data"]["validation_fraction"] = 0.2;
  config["eval_interval"] = 3;
  const ProcessResult validation = Train(config);
  ExpectUserError(validation);
  EXPECT_THAT(validation.err,
              AllOf(HasSubstr("data.validation: none of its 2 samples has a "),
                    HasSubstr("they have none at any length")));
  WriteConfig(config);
  const ProcessResult evaluated = Castor({"evaluate", "run.json"});
  ExpectUserError(evaluated);
  EXPECT_THAT(evaluated.err, HasSubstr("data.validation: none of its 2"));
  // Without evaluations the validation data are not checked.
  config.erase("eval_interval");
  EXPECT_EQ(Train(config).exit_code, 0);
}

TEST_F(DataTest, PlanTokenisesNothing) {
  WriteFile(Path("text.jsonl"), Documents());
  WriteConfig(Config("text.jsonl", "words"));
  const ProcessResult plan = Castor({"plan", "run.json"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_EQ(Caches(), 0);
}

TEST_F(DataTest, RefusesBadDataAndLeavesNothing) {
  WriteFile(Path("bad.jsonl"), Documents() + "\n{\"text\": 3}\n");
  WriteFile(Path("left.jsonl"),
            R"({"input_ids": [1, 2], "attention_mask": [0, 1]})");
  WriteFile(Path("high.jsonl"), "{\"input_ids\": [1]}\n{\"input_ids\": [128]}");
  WriteFile(Path("mixed.jsonl"), "{\"input_ids\": [1]}\n{\"text\": \"a\"}\n");
  WriteFile(Path("prompts.jsonl"),
            "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  WriteFile(Path("list.jsonl"), "[{\"text\": \"a\"}, {\"text\": \"b\"}]");
  WriteFile(Path("bad.txt"), "a\n\xff\n");
  std::filesystem::create_directory(Path("empty"));
  const struct {
    const char* train;
    const char* tokenizer;
    std::vector<const char*> says;
  } kCases[] = {
      {"bad.jsonl",
       "words",
       {"data.train: ", "bad.jsonl\", line 42: text: expected a string"}},
      {"mixed.jsonl",
       "",
       {"mixed.jsonl\", line 2: input_ids: is missing", "all lines"}},
      {"prompts.jsonl", "", {"has text, and there is no tokenizer"}},
      {"list.jsonl", "", {"line 1: expected an object", "jq -c '.[]'"}},
      {"left.jsonl",
       "",
       {"left.jsonl\", line 1: attention_mask: ", "right end"}},
      {"high.jsonl",
       "",
       {"line 2: input_ids: has token 128", "model.vocab_size is 128"}},
      {"bad.txt", "words", {"bad.txt\", line 2: the byte 0xff"}},
      {"text.txt", "empty", {"data.tokenizer", "empty"}},
      {"text.txt", "none", {"data.tokenizer", "none"}},
      {"bad.jsonl", "", {"there is no tokenizer", "data.tokenizer"}},
  };
  for (const auto& c : kCases) {
    const ProcessResult result = Train(Config(c.train, c.tokenizer));
    ExpectUserError(result);
    for (const char* part : c.says) EXPECT_THAT(result.err, HasSubstr(part));
  }
  Json config = Config("text.txt", "words");
  config["model"]["vocab_size"] = 8;
  const ProcessResult result = Train(config);
  ExpectUserError(result);
  EXPECT_THAT(result.err, AllOf(HasSubstr("tokenizer \""), HasSubstr("words"),
                                HasSubstr("model.vocab_size is 8")));
  EXPECT_EQ(Caches(), 0);
}

}  // namespace
}  // namespace castor::testing
