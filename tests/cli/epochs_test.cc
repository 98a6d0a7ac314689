// Runs of epochs, their evaluations, the best step, an early end, and the log
// of all that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// 4,000 tokens, of which 800 are for validation: 199 samples of 16, and 49.
// A step has 4 of them, so that an epoch has 50 steps.
class Epochs : public CliTest {
 protected:
  static Json Config(double epochs) {
    Json config = SmallConfig();
    config.erase("steps");
    config["num_train_epochs"] = epochs;
    config["data"]["validation_fraction"] = 0.2;
    config["eval_strategy"] = "epoch";
    config["eval_batches"] = 1000;
    config["checkpoint"]["save_interval"] = 7;
    config["lr_scheduler_type"] = "linear";
    config["lr_scheduler_kwargs"] = {{"warmup_ratio", 0.1}};
    config.erase("scheduler");
    return config;
  }
  // The lines of a JSON log.
  std::vector<Json> Log(const std::string& name) const {
    std::vector<Json> lines;
    for (const auto line :
         absl::StrSplit(ReadFile(Path(name)), '\n', absl::SkipEmpty())) {
      lines.push_back(Json::parse(std::string(line)));
    }
    return lines;
  }
};

TEST_F(Epochs, AreTheStepsThatTheDataMake) {
  const ProcessResult result =
      Train(Config(0.21), {"--summary", "epochs.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      HasSubstr("an epoch: 199 samples, 3184 tokens (3184 learned), 50 steps "
                "of 4; the run: 11 steps, 0.22 epochs\n"));
  const Json epochs = Json::parse(ReadFile(Path("epochs.json")));
  EXPECT_EQ(epochs["steps"], 11);
  EXPECT_EQ(epochs["steps_per_epoch"], 50);
  // The last epoch ends before its time, and is evaluated all the same.
  ASSERT_EQ(epochs["evaluations"].size(), 1u);
  EXPECT_EQ(epochs["evaluations"][0]["step"], 11);
  // A run of so many steps has the same bits, the schedule's numbers too.
  Json config = Config(1);
  config.erase("num_train_epochs");
  config["steps"] = 11;
  config["lr_scheduler_kwargs"] = {{"warmup_num_steps", 2}};
  EXPECT_EQ(Summary(config)["parameters_sha256"], epochs["parameters_sha256"]);
  // castor plan says so, as far as it can be known without the tokens.
  const ProcessResult plan = Castor({"plan", "run.json"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
}

TEST_F(Epochs, GoOnInTheMiddleOfOneToTheSameBits) {
  Json config = Config(1.125);  // 57 steps
  config["checkpoint"]["keep"] = 100;
  const Json whole = Summary(config, {"--log-json", "log"});
  EXPECT_THAT(whole["evaluations"].size(), 2);
  const std::vector<Json> log = Log("log");
  ASSERT_EQ(log.size(), 59u);
  // The checkpoint of step 49 is from before the end of the first epoch.
  for (const int ranks : {0, 2}) {
    if (ranks > 0) {
      config["train_batch_size"] = 4;
      config.erase("gradient_accumulation_steps");
    }
    const Json rest =
        Summary(ranks, config,
                {"--resume", "out/step-00000049.castor", "--log-json", "log"});
    EXPECT_EQ(rest["parameters_sha256"], whole["parameters_sha256"]);
    EXPECT_EQ(rest["evaluations"], whole["evaluations"]);
    EXPECT_EQ(rest["best"], whole["best"]);
    EXPECT_EQ(rest["losses"].size(), 8u);
    // The log goes on with it, and has each step once.
    const std::vector<Json> again = Log("log");
    ASSERT_EQ(again.size(), log.size());
    for (size_t i = 0; i < log.size(); ++i) {
      for (const char* key : {"step", "epoch", "loss", "learning_rate",
                              "validation_loss", "token_accuracy", "best"}) {
        EXPECT_EQ(again[i].value(key, Json()), log[i].value(key, Json()))
            << i << " " << key;
      }
    }
  }
  EXPECT_EQ(log[50]["validation_loss"], whole["evaluations"][0]["loss"]);
  EXPECT_EQ(log[49]["epoch"], 1.0);
  EXPECT_EQ(log[49]["loss"], whole["losses"][49]);
}

// Only the first evaluation is a gain of so much.
Json EarlyConfig(Json config) {
  config["eval_strategy"] = "steps";
  config["eval_interval"] = 5;
  config["early_stopping_patience"] = 3;
  config["early_stopping_threshold"] = 100;
  return config;
}

TEST_F(Epochs, EndEarlyWithTheBestBesideTheNewest) {
  Json config = EarlyConfig(Config(2));
  config["checkpoint"] = {{"dir", "out"}, {"keep", 1}, {"load_best", true}};
  // Half of the way all learn, then the rate is too great for that.
  config["optimizer"]["params"]["lr"] = 0.02;
  config["eval_interval"] = 4;
  const ProcessResult result = Train(config, {"--summary", "s.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("ended early after step 16: none of the last 3"),
                    HasSubstr("and the best")));
  const Json summary = Json::parse(ReadFile(Path("s.json")));
  EXPECT_EQ(summary["ended"], "stopped_early");
  EXPECT_EQ(summary["steps"], 16);
  const Json& best = summary["best"];
  double least = std::numeric_limits<double>::infinity();
  int64_t step = 0;
  for (const Json& evaluation : summary["evaluations"]) {
    if (evaluation["loss"].get<double>() >= least) continue;
    least = evaluation["loss"];
    step = evaluation["step"];
  }
  EXPECT_EQ(best["step"], step);
  EXPECT_EQ(best["value"], least);
  EXPECT_EQ(best["metric"], "loss");
  // The directory's name stands for the best; "latest" is the newest.
  const auto evaluate = [&](const std::string& checkpoint) {
    const ProcessResult told = Castor({"evaluate", "run.json", "--checkpoint",
                                       checkpoint, "--summary", "e.json"});
    EXPECT_EQ(told.exit_code, 0) << told.err;
    return Json::parse(ReadFile(Path("e.json")));
  };
  EXPECT_EQ(evaluate("out")["loss"], least);
  const Json last = evaluate("latest");
  EXPECT_EQ(last["loss"], summary["evaluations"].back()["loss"]);
  EXPECT_EQ(last["token_accuracy"],
            summary["evaluations"].back()["token_accuracy"]);
  EXPECT_EQ(last["perplexity"], std::exp(last["loss"].get<double>()));
  // It has ended, and does not go on.
  const ProcessResult again =
      Train(config, {"--resume", "latest", "--summary", "s.json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const Json resumed = Json::parse(ReadFile(Path("s.json")));
  EXPECT_EQ(resumed["ended"], "stopped_early");
  EXPECT_EQ(resumed["steps"], 16);
  EXPECT_EQ(resumed["best"], best);
}

TEST_F(Epochs, KeepTheBestThatIsNotAmongTheNewest) {
  Json config = Config(0.3);
  // All after the first evaluation are worse: nothing is learned any more.
  config["eval_strategy"] = "steps";
  config["eval_interval"] = 3;
  config["optimizer"]["params"]["lr"] = 0;
  config["checkpoint"] = {{"dir", "out"},
                          {"keep", 1},
                          {"save_interval", 2},
                          {"load_best", true},
                          {"best_metric", "token_accuracy"}};
  const Json summary = Summary(config);
  EXPECT_EQ(summary["best"]["step"], 3);
  EXPECT_EQ(summary["best"]["metric"], "token_accuracy");
  EXPECT_THAT(List("out"), ::testing::Contains("step-00000003.castor"));
  EXPECT_THAT(List("out"), ::testing::Contains("step-00000015.castor"));
  EXPECT_THAT(List("out"), Not(::testing::Contains("step-00000012.castor")));
}

TEST_F(Epochs, HaveAnOrderOfTheirOwnSeed) {
  Json config = Config(0.2);
  const std::string same = Summary(config)["parameters_sha256"];
  config["data"]["seed"] = 7;  // as `seed`
  EXPECT_EQ(Summary(config)["parameters_sha256"], same);
  config["data"]["seed"] = 8;
  EXPECT_NE(Summary(config)["parameters_sha256"], same);
  config["data"]["seed"] = 9;
  const ProcessResult resumed = Train(config, {"--resume", "latest"});
  ExpectUserError(resumed);
  EXPECT_THAT(resumed.err, HasSubstr("data.seed: 8 then, 9 now"));
}

TEST_F(Epochs, LeaveAFileThatIsNoLog) {
  const Json config = Config(0.1);
  WriteFile(Path("notes"), "a shopping list\n");
  const ProcessResult result = Train(config, {"--log-json", "notes"});
  ExpectUserError(result);
  EXPECT_THAT(result.err, HasSubstr("is no log of a run"));
  EXPECT_EQ(ReadFile(Path("notes")), "a shopping list\n");
  ExpectUserError(Train(config, {"--log-json", "text.txt"}));
  EXPECT_EQ(ReadFile(Path("text.txt")), SmallText(4000));
}

}  // namespace
}  // namespace castor::testing
