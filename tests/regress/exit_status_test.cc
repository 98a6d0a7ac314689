// Tests what the exit status and the summary say of how a run ended.
// docs/exit-status.md
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "base/test_files.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;

class ExitStatus : public CliTest {
 protected:
  ExitStatus() { config_.erase("scheduler"); }
  ProcessResult TrainToSummary(std::vector<std::string> args = {}) const {
    args.insert(args.end(), {"--summary", "summary.json"});
    return Train(config_, args);
  }
  Json ReadSummary() const {
    return Json::parse(ReadFile(Path("summary.json")));
  }
  void ExpectEnded(const std::string& how, const std::string& error) const {
    const Json summary = ReadSummary();
    EXPECT_EQ(summary["ended"], how);
    EXPECT_THAT(summary.value("error", ""), HasSubstr(error));
    EXPECT_EQ(summary.contains("error"), !error.empty());
  }

  Json config_ = SmallConfig();
};

TEST_F(ExitStatus, IsZeroWhereAllStepsWereDone) {
  EXPECT_EQ(TrainToSummary().exit_code, 0);
  ExpectEnded("finished", "");
  // Also where none was left to do.
  EXPECT_EQ(TrainToSummary({"--resume", "latest"}).exit_code, 0);
  ExpectEnded("finished", "");
}

// Reported: a scheduler took a run that it had preempted itself for one that
// was done, since both ended with 0.
class Preempted : public ExitStatus,
                  public ::testing::WithParamInterface<int> {};

TEST_P(Preempted, SaysByWhichSignalAndSaves) {
  config_["steps"] = 1'000'000;
  WriteConfig(config_);
  for (const bool launched : {false, true}) {
    std::vector<std::string> args = {"run.json", "--summary", "summary.json"};
    if (launched) {
      args.insert(args.begin(), {"launch", "--nproc", "2"});
      config_["train_batch_size"] = 4;
      config_.erase("gradient_accumulation_steps");
      WriteConfig(config_);
    } else {
      args.insert(args.begin(), "train");
    }
    CastorProcess process(args, directory());
    ASSERT_TRUE(process.WaitForOutput("\nstep 3/"));
    process.Signal(GetParam());
    const ProcessResult result = process.Wait();
    EXPECT_EQ(result.exit_code, 128 + GetParam()) << result.err;
    EXPECT_EQ(result.err, "");
    ExpectEnded("interrupted", "");
    const int64_t step = ReadSummary()["steps"];
    EXPECT_LT(step, 1'000'000);
    EXPECT_THAT(result.out,
                HasSubstr("interrupted after step " + std::to_string(step)));
  }
}

INSTANTIATE_TEST_SUITE_P(Signals, Preempted,
                         ::testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& info) {
                           return sigabbrev_np(info.param);
                         });

// Reported: bf16 weights with one value beyond fp16's range. The loss was NaN
// at step 1, every step was skipped, and the run saved an untrained model and
// ended with 0. fp32 and bf16 refused such a loss already.
TEST_F(ExitStatus, RefusesAFirstLossThatIsNoNumberInFp16Too) {
  config_["model"]["initializer_range"] = 300;  // products beyond 65504
  for (const Json& fp16 : {Json({{"enabled", true}}),
                           Json({{"enabled", true}, {"loss_scale", 128}})}) {
    config_["fp16"] = fp16;
    const ProcessResult result = TrainToSummary();
    ExpectUserError(result);
    EXPECT_THAT(result.err,
                HasSubstr("step 1 is not finite, before any update"));
    ExpectEnded("refused", "step 1 is not finite, before any update");
    EXPECT_THAT(List("out"), ::testing::IsEmpty());
  }
}

// The same with a finite loss: the scale itself is what overflows. (2^60 times
// any gradient of this model is beyond 65504.)
TEST_F(ExitStatus, IsOneWhereEveryStepWasSkipped) {
  config_["fp16"] = {{"enabled", true}, {"loss_scale", 0x1p60}};
  const ProcessResult result = TrainToSummary();
  ExpectFailure(result);
  EXPECT_THAT(result.err, HasSubstr("each of the 6 steps was skipped"));
  ExpectEnded("failed", "each of the 6 steps was skipped");
  const Json summary = ReadSummary();
  EXPECT_EQ(summary["steps"], 6);
  EXPECT_EQ(summary["skipped_steps"], 6);
  // A scale that can be trained with goes on from there.
  config_["fp16"]["loss_scale"] = 64;
  config_["steps"] = 8;
  EXPECT_EQ(
      TrainToSummary({"--resume", "latest", "--resume-changed"}).exit_code, 0);
  ExpectEnded("finished", "");
}

// So with a scale that sinks, where the steps end before it is small enough.
TEST_F(ExitStatus, IsOneWhereTheScaleHadNoTimeToSink) {
  config_["fp16"] = {
      {"enabled", true}, {"initial_scale_power", 60}, {"hysteresis", 1}};
  const ProcessResult result = TrainToSummary();
  ExpectFailure(result);
  ExpectEnded("failed", "each of the 6 steps was skipped");
}

TEST_F(ExitStatus, IsOneWhereTheRunDiverged) {
  const ProcessResult result =
      TrainToSummary({"--set", "optimizer.params.lr=1e38"});
  ExpectFailure(result);
  ExpectEnded("failed", "no checkpoint can be written any more");
  EXPECT_GT(ReadSummary()["steps"], 0);
}

// On several ranks, too: the launcher's is theirs.
TEST_F(ExitStatus, IsThatOfAllRanks) {
  config_["train_batch_size"] = 4;
  config_.erase("gradient_accumulation_steps");
  WriteConfig(config_);
  const std::vector<std::string> launch = {
      "launch", "--nproc", "2", "run.json", "--summary", "summary.json"};
  EXPECT_EQ(Castor(launch).exit_code, 0);
  ExpectEnded("finished", "");
  std::vector<std::string> diverges = launch;
  diverges.insert(diverges.end(), {"--set", "optimizer.params.lr=1e38"});
  EXPECT_EQ(Castor(diverges).exit_code, 1);
  ExpectEnded("failed", "no checkpoint can be written any more");
  std::vector<std::string> refused = launch;
  refused.insert(refused.end(), {"--set", "memory.device_memory=1KiB"});
  EXPECT_EQ(Castor(refused).exit_code, 2);
  ExpectEnded("refused", "device_memory");
}

// Reported: nothing but a missing summary told a refused run from one that was
// still to come; and an earlier run's summary passed for its.
TEST_F(ExitStatus, IsInTheSummaryOfWhatIsRefused) {
  ASSERT_EQ(TrainToSummary().exit_code, 0);
  ExpectUserError(TrainToSummary({"--set", "steps=-1"}));
  ExpectEnded("refused", "steps");
  EXPECT_EQ(ReadSummary()["steps"], 0);
  ExpectUserError(TrainToSummary({"--set", "memory.device_memory=1KiB"}));
  ExpectEnded("refused", "device_memory");
  EXPECT_TRUE(ReadSummary().contains("refused"));
  ExpectUserError(TrainToSummary({"--resume", "none.castor"}));
  ExpectEnded("refused", "none.castor");
  WriteFile(Path("short.txt"), "a");
  ExpectUserError(TrainToSummary({"--set", "data.train=short.txt"}));
  ExpectEnded("refused", "data.train");
}

// A file that is no summary stays, whatever else is wrong.
TEST_F(ExitStatus, IsWrittenOverNothingButASummary) {
  for (const std::string text : {"{\"steps\": 3}", "my notes"}) {
    WriteFile(Path("summary.json"), text);
    ExpectUserError(TrainToSummary({"--set", "steps=-1"}));
    EXPECT_EQ(ReadFile(Path("summary.json")), text);
  }
  WriteConfig(config_);
  ExpectUserError(Castor({"train", "run.json", "--summary", "run.json"}));
  EXPECT_EQ(Json::parse(ReadFile(Path("run.json"))), config_);
}

}  // namespace
}  // namespace castor::testing
