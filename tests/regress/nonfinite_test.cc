// A gradient that is not finite, in a run whose other gradients are: what was
// trained until then was lost, or the engine of a client with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/cli_test_base.h"
#include "tests/regress/small_model.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kBadStep = 3;
constexpr int kSteps = 6;

class NonFinite : public CliTest {
 protected:
  // Token 63 at position 4, which the third line has, is beyond the largest
  // number, and so are its loss and its gradients.
  NonFinite() {
    const Json config = SmallModelConfig("gpt2");
    SmallTensors tensors = SmallModelTensors(config);
    for (int i = 0; i < 8; ++i) {
      tensors["transformer.wte.weight"].values[63 * 8 + i] = 3.4e38f;
      tensors["transformer.wpe.weight"].values[4 * 8 + i] = 1e37f;
    }
    tensors["lm_head.weight"] = SmallValues({64, 8}, /*seed=*/7);
    WriteSmallModel(Path("m"), config, tensors);
    std::string lines;
    for (int line = 1; line <= kSteps; ++line) {
      Json ids = Json::array();
      for (int i = 0; i < 9; ++i) ids.push_back((line * 5 + i * 3) % 60);
      if (line == kBadStep) ids[4] = 63;
      lines += Json({{"input_ids", ids}}).dump() + "\n";
    }
    WriteFile(Path("lines.jsonl"), lines);
    config_ = {{"model", {{"pretrained", "m"}}},
               {"data",
                {{"train", "lines.jsonl"},
                 {"sequence_length", 8},
                 {"shuffle", false}}},
               {"steps", kSteps},
               {"train_batch_size", 1},
               {"gradient_clipping", 1.0},
               {"optimizer", {{"params", {{"lr", 1e-2}}}}},
               {"steps_per_print", 1},
               {"checkpoint", {{"dir", "out"}}},
               {"device", {{"type", "host"}, {"threads", 1}}}};
  }
  ProcessResult Run(std::vector<std::string> args = {}) {
    args.insert(args.end(), {"--summary", "summary.json"});
    return Train(config_, args);
  }
  Json ReadSummary() const {
    return Json::parse(ReadFile(Path("summary.json")));
  }

  Json config_;
};

TEST_F(NonFinite, IsUndoneAndWhatWasTrainedIsSaved) {
  for (const bool clips : {true, false}) {
    SCOPED_TRACE(clips);
    if (!clips) {
      config_["gradient_clipping"] = 0;
      config_["on_nonfinite_undo"] = true;
    }
    config_["on_nonfinite"] = "error";
    config_["checkpoint"]["dir"] = clips ? "a" : "b";
    const ProcessResult failed = Run();
    ExpectFailure(failed);
    EXPECT_THAT(failed.err, HasSubstr("the loss at step 3 is not finite"));
    EXPECT_EQ(ReadSummary()["ended"], "failed");
    EXPECT_EQ(ReadSummary()["steps"], kBadStep);
    // It goes on from there, to the bits of the run that skips the step.
    const ProcessResult resumed = Run({"--resume", "latest"});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    const Json whole = ReadSummary();
    EXPECT_EQ(whole["steps"], kSteps);

    config_["on_nonfinite"] = "skip";
    for (const char* const policy : {"cuda", "cpu", "auto"}) {
      config_["memory"] = {{"placement_policy", policy}};
      config_["checkpoint"]["dir"] = std::string("skip_") + policy;
      const ProcessResult skips = Run();
      ASSERT_EQ(skips.exit_code, 0) << skips.err;
      EXPECT_THAT(skips.out, HasSubstr("step 3  skipped: the gradient of \""));
      const Json summary = ReadSummary();
      EXPECT_EQ(summary["ended"], "finished");
      EXPECT_EQ(summary["skipped_steps"], 1);
      EXPECT_EQ(summary["parameters_sha256"], whole["parameters_sha256"]);
    }
    config_.erase("memory");
  }
}

TEST_F(NonFinite, StepsInARowEndTheRunThatSkipsThem) {
  std::string lines;
  for (int line = 1; line <= kSteps; ++line) {
    Json ids(9, line);
    if (line >= kBadStep) ids[4] = 63;
    lines += Json({{"input_ids", ids}}).dump() + "\n";
  }
  WriteFile(Path("lines.jsonl"), lines);
  config_["on_nonfinite"] = "skip";
  config_["max_skipped_steps"] = 3;
  const ProcessResult failed = Run();
  ExpectFailure(failed);
  EXPECT_THAT(failed.err, HasSubstr("the loss at step 5 is not finite"));
  EXPECT_EQ(ReadSummary()["skipped_steps"], 3);
  EXPECT_TRUE(Exists("out/step-00000005.castor"));
}

// It is known only when no other step follows, and was no failure then.
TEST_F(NonFinite, InTheLastStepFailsTheRunAsAnywhere) {
  config_["steps"] = kBadStep;
  ExpectFailure(Run());
  EXPECT_EQ(ReadSummary()["ended"], "failed");
  EXPECT_TRUE(Exists("out/step-00000003.castor"));
  config_["on_nonfinite"] = "skip";
  config_["checkpoint"]["dir"] = "skips";
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_EQ(ReadSummary()["skipped_steps"], 1);
}

// Other data may do better, but where nothing may be skipped.
TEST_F(NonFinite, InTheFirstStepIsSkippedLikeAnyOther) {
  std::string lines;
  for (int line = 1; line <= kSteps; ++line) {
    Json ids(9, line);
    if (line <= 2) ids[4] = 63;
    lines += Json({{"input_ids", ids}}).dump() + "\n";
  }
  WriteFile(Path("lines.jsonl"), lines);
  ExpectUserError(Run());
  config_["on_nonfinite"] = "skip";
  const ProcessResult skips = Run();
  ASSERT_EQ(skips.exit_code, 0) << skips.err;
  EXPECT_EQ(ReadSummary()["skipped_steps"], 2);
}

// Nothing can undo it then: the run ends, and its earlier checkpoints stay.
TEST_F(NonFinite, WithoutClippingSpoilsTheRun) {
  config_.erase("gradient_clipping");
  config_["checkpoint"]["save_interval"] = 1;
  const ProcessResult failed = Run();
  ExpectFailure(failed);
  EXPECT_THAT(failed.err, HasSubstr("the loss at step 3 is not finite"));
  EXPECT_TRUE(Exists("out/step-00000002.castor"));
}

}  // namespace
}  // namespace castor::testing
