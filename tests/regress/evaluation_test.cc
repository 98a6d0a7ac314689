// Tests over which tokens a run's validation loss is the mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

class RegressEvaluation : public CliTest {
 protected:
  RegressEvaluation() {
    WriteFile(Path("train.jsonl"), Lines(0, 16));
    WriteFile(Path("valid.jsonl"), Lines(100, 3));
  }
  // Lines first to first + count, all of 8 tokens, or line i of 8 - i % 3.
  static std::string Lines(int first, int count, bool uneven = false) {
    std::string text;
    for (int i = first; i < first + count; ++i) {
      Json line;
      for (int t = 0; t < 8 - (uneven ? i % 3 : 0); ++t) {
        line["input_ids"].push_back((5 * i + 3 * t + i * t) % 64);
      }
      text += line.dump() + "\n";
    }
    return text;
  }
  // A run that changes nothing, and is evaluated after its only step.
  static Json Config(int micro_batch) {
    Json config = SmallConfig();
    config["model"] = {{"type", "gpt2"},
                       {"vocab_size", 64},
                       {"n_layer", 2},
                       {"n_head", 2},
                       {"n_embd", 16},
                       {"n_positions", 8},
                       {"initializer_range", 0.5}};
    config["data"] = {{"train", "train.jsonl"},
                      {"validation", "valid.jsonl"},
                      {"sequence_length", 8}};
    config["steps"] = 1;
    config["eval_interval"] = 1;
    config["train_micro_batch_size_per_gpu"] = micro_batch;
    config["gradient_accumulation_steps"] = 1;
    config["optimizer"]["params"]["lr"] = 0;
    config["checkpoint"] = false;
    config.erase("scheduler");
    return config;
  }
  double LossOfRun(const Json& config, int ranks = 0) const {
    const Json evaluations = Summary(ranks, config)["evaluations"];
    EXPECT_EQ(evaluations.size(), 1u);
    return evaluations[0]["loss"];
  }
  Json Evaluation(const Json& config) const {
    WriteConfig(config);
    const ProcessResult result =
        Castor({"evaluate", "run.json", "--summary", "e.json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(ReadFile(Path("e.json")));
  }
};

// With 3 samples in micro batches of 2, the first two counted six times and
// the last one four times, until eval_batches were full.
TEST_F(RegressEvaluation, NoSampleCountsTwice) {
  const Json config = Config(2);
  const double loss = LossOfRun(config);
  // The mean of each sample's own loss: all have as many targets.
  double sum = 0;
  for (int i = 0; i < 3; ++i) {
    WriteFile(Path("one.jsonl"), Lines(100 + i, 1));
    Json one = config;
    one["data"]["validation"] = "one.jsonl";
    const Json evaluation = Evaluation(one);
    EXPECT_EQ(evaluation["labels"], 7);
    sum += evaluation["loss"].get<double>();
  }
  EXPECT_NEAR(loss, sum / 3, 1e-6);
  EXPECT_EQ(loss, Evaluation(config)["loss"].get<double>());
}

// The same holds on two ranks, of which the second has fewer batches or none.
TEST_F(RegressEvaluation, TheBitsAreThoseOfEvaluateOnAnyNumberOfRanks) {
  for (const int samples : {1, 5}) {
    WriteFile(Path("valid.jsonl"), Lines(100, samples, /*uneven=*/true));
    const Json config = Config(2);
    const Json evaluation = Evaluation(config);
    EXPECT_EQ(evaluation["samples"], samples);
    EXPECT_EQ(LossOfRun(config), evaluation["loss"].get<double>()) << samples;
    EXPECT_EQ(LossOfRun(config, 2), evaluation["loss"].get<double>())
        << samples;
  }
}

// More batches than `castor evaluate` takes at once are added in one order.
TEST_F(RegressEvaluation, ManyBatchesHaveTheBitsOfEvaluate) {
  WriteFile(Path("valid.jsonl"), Lines(100, 75, /*uneven=*/true));
  Json config = Config(2);
  config["eval_batches"] = 1000;
  const double loss = LossOfRun(config);
  EXPECT_EQ(loss, Evaluation(config)["loss"].get<double>());
  // And eval_batches still is how many there are at most: 4 samples of them.
  config["eval_batches"] = 2;
  const double of_some = LossOfRun(config);
  EXPECT_NE(of_some, loss);
  WriteFile(Path("valid.jsonl"), Lines(100, 4, /*uneven=*/true));
  EXPECT_EQ(of_some, Evaluation(config)["loss"].get<double>());
}

}  // namespace
}  // namespace castor::testing
