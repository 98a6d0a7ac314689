// Ctrl-C, a terminal that closes: the step at hand is finished, saved, and gone
// on from to the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;

// Writes a file of which one evaluation takes minutes, and returns a run that
// is validated on it and saves at its end only.
Json EvaluatedForMinutes(const std::string& file) {
  WriteFile(file, SmallText(16'000'000));
  Json config = SmallConfig();
  config["data"]["validation"] = file;
  config["checkpoint"] = {{"dir", "out"}};
  config["eval_interval"] = 3;
  return config;
}

class Interrupted : public CliTest,
                    public ::testing::WithParamInterface<int> {};

TEST_P(Interrupted, FinishesTheStepSavesAndGoesOnToTheSameBits) {
  Json config = SmallConfig();
  config["checkpoint"] = {{"dir", "out"}};  // saves at the end only
  // No run with so many steps ends before the signal comes.
  config["steps"] = 1000000;
  WriteConfig(config);
  Json losses = Json::array();
  int64_t last = 0;
  for (int round = 0; round < 4; ++round) {
    std::vector<std::string> args = {"train", "run.json", "--summary",
                                     "summary.json"};
    if (round > 0) args.insert(args.end(), {"--resume", "latest"});
    CastorProcess process(args, directory());
    ASSERT_TRUE(process.WaitForOutput(
        "\nstep " + std::to_string(last + 1 + 5 * round) + "/"));
    process.Signal(GetParam());
    const ProcessResult result = process.Wait();
    ASSERT_EQ(result.exit_code, 128 + GetParam()) << result.err << result.out;
    EXPECT_EQ(result.err, "");
    const Json summary = Json::parse(ReadFile(Path("summary.json")));
    EXPECT_EQ(summary["ended"], "interrupted");
    const int64_t step = summary["steps"];
    ASSERT_GT(step, last);
    EXPECT_EQ(static_cast<int64_t>(summary["losses"].size()), step - last);
    EXPECT_THAT(result.out,
                HasSubstr("interrupted after step " + std::to_string(step)));
    EXPECT_THAT(result.out, HasSubstr("--resume latest"));
    for (const Json& loss : summary["losses"]) losses.push_back(loss);
    last = step;
  }
  const int64_t steps = last + 20;
  config["steps"] = steps;
  const Json end = Summary(config, {"--resume", "latest"});
  for (const Json& loss : end["losses"]) losses.push_back(loss);
  EXPECT_EQ(end["steps"], steps);
  std::filesystem::remove_all(Path("out"));
  const Json whole = Summary(config);
  EXPECT_EQ(losses, whole["losses"]);
  EXPECT_EQ(end["parameters_sha256"], whole["parameters_sha256"]);
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupted,
                         ::testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& info) {
                           return sigabbrev_np(info.param);
                         });

// What is missing of the evaluation is made up for when the run goes on.
TEST_P(Interrupted, SavesWithoutWaitingForAnEvaluation) {
  Json config = EvaluatedForMinutes(Path("long.txt"));
  config["steps"] = 7;
  config["eval_batches"] = 1'000'000;
  WriteConfig(config);
  CastorProcess process({"train", "run.json", "--summary", "summary.json"},
                        directory());
  ASSERT_TRUE(process.WaitForOutput("\nstep 2/"));
  process.Signal(GetParam());
  const ProcessResult result = process.Wait();
  ASSERT_EQ(result.exit_code, 128 + GetParam()) << result.err << result.out;
  const Json first = Json::parse(ReadFile(Path("summary.json")));
  EXPECT_EQ(first["ended"], "interrupted");
  EXPECT_EQ(first["steps"], 3);
  EXPECT_EQ(first["evaluations"], Json::array());
  config["eval_batches"] = 2;
  const Json rest = Summary(config, {"--resume", "latest"});
  std::filesystem::remove_all(Path("out"));
  const Json whole = Summary(config);
  EXPECT_EQ(whole["evaluations"].size(), 2u);
  EXPECT_EQ(rest["evaluations"], whole["evaluations"]);
  EXPECT_EQ(rest["parameters_sha256"], whole["parameters_sha256"]);
}

// The last evaluation, too, says which checkpoint is the best.
TEST_F(CliTest, AnEvaluationThatIsMadeUpForIsSaved) {
  Json config = EvaluatedForMinutes(Path("long.txt"));
  config["checkpoint"]["load_best"] = true;
  config["eval_batches"] = 2;
  config["steps"] = 3;
  Summary(config);
  config["steps"] = 6;
  config["eval_batches"] = 1'000'000;
  WriteConfig(config);
  CastorProcess process({"train", "run.json", "--resume", "latest"},
                        directory());
  ASSERT_TRUE(process.WaitForOutput("\nstep 5/"));
  process.Signal(SIGTERM);
  ASSERT_EQ(process.Wait().exit_code, 128 + SIGTERM);
  config["eval_batches"] = 2;
  const Json rest = Summary(config, {"--resume", "latest"});
  EXPECT_EQ(rest["ended"], "finished");
  ASSERT_EQ(rest["evaluations"].size(), 1u);
  EXPECT_EQ(rest["evaluations"][0]["step"], 6);
  const auto exported = [&](const std::string& to) {
    const ProcessResult result = RunCastor({"export", "out", to}, directory());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return ReadFile(Path(to + "/model.safetensors"));
  };
  const std::string made_up = exported("first");
  // It is not made a second time, nor where another interval is asked for.
  config["eval_interval"] = 2;
  EXPECT_EQ(Summary(config, {"--resume", "auto"}), rest);
  std::filesystem::remove_all(Path("out"));
  config["eval_interval"] = 3;
  EXPECT_EQ(Summary(config)["best"], rest["best"]);
  EXPECT_EQ(exported("second"), made_up);
}

// A run that goes on from a checkpoint never tells of the steps before it.
TEST_F(CliTest, AStepIsToldBeforeItsCheckpointIsThere) {
  Json config = SmallConfig();
  config["steps"] = 1000000;
  config["checkpoint"] = {{"dir", "out"}, {"save_interval", 1}, {"keep", 1000}};
  WriteConfig(config);
  CastorProcess process({"train", "run.json", "--log-json", "log.jsonl"},
                        directory());
  ASSERT_TRUE(process.WaitForOutput("\nstep 2/"));
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::string> saved = List("out");
    const std::string log = ReadFile(Path("log.jsonl"));
    for (const std::string& name : saved) {
      int step = 0;
      char end = 0;
      if (std::sscanf(name.c_str(), "step-%d.casto%c", &step, &end) != 2) {
        continue;
      }
      EXPECT_THAT(log, HasSubstr("{\"step\":" + std::to_string(step) + ","));
    }
  }
  // Another run does not take the file away meanwhile.
  const ProcessResult other = Train(
      config, {"--log-json", "log.jsonl", "--set", "checkpoint.dir=other"});
  ExpectUserError(other);
  EXPECT_THAT(other.err, HasSubstr("log.jsonl is the log of a run that goes"));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait().exit_code, 128 + SIGINT);
}

// nohup, and a shell's background jobs.
TEST_P(Interrupted, GoesOnWhereTheSignalWasIgnoredAtTheStart) {
  Json config = SmallConfig();
  config["checkpoint"] = {{"dir", "out"}};
  config["steps"] = 100000;
  WriteConfig(config);
  CastorProcess process(
      {"train", "run.json"}, directory(), /*ranks=*/0,
      "trap '' " + std::to_string(GetParam()) + "; exec \"$@\"");
  ASSERT_TRUE(process.WaitForOutput("\nstep 2/"));
  process.Signal(GetParam());
  process.Signal(GetParam());
  ASSERT_TRUE(process.WaitForOutput("\nstep 40/")) << process.Wait().err;
  const int other = GetParam() == SIGINT ? SIGTERM : SIGINT;
  process.Signal(other);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 128 + other) << result.err;
  EXPECT_THAT(result.out, HasSubstr("interrupted after step "));
}

TEST_F(CliTest, InterruptedWithoutADirectorySaysThatNothingIsSaved) {
  Json config = SmallConfig();
  config["checkpoint"] = false;
  config["steps"] = 100000;
  WriteConfig(config);
  CastorProcess process({"train", "run.json"}, directory());
  ASSERT_TRUE(process.WaitForOutput("\nstep 2/"));
  process.Signal(SIGINT);
  const ProcessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 128 + SIGINT) << result.err;
  EXPECT_THAT(result.out, HasSubstr("nothing was saved"));
  EXPECT_FALSE(Exists("run.castor"));
}

}  // namespace
}  // namespace castor::testing
