#include "run/config/run_length.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "run/config/config.h"
#include "run/config/test_models.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

constexpr char kMinimal[] = R"({
  "model": {"n_layer": 2, "n_positions": 16},
  "data": {"train": "a.txt"}, "steps": 3, "train_batch_size": 4})";

absl::StatusOr<Config> Parse(const char* text,
                             const std::vector<std::string>& overrides) {
  return ParseConfig(TestModels(), text, /*base_dir=*/"", overrides);
}

std::string Error(const std::vector<std::string>& overrides) {
  return std::string(Parse(kMinimal, overrides).status().message());
}

TEST(Scheduler, DefaultsFollowTypeAndSteps) {
  auto config = Parse(kMinimal, {"scheduler.type=WarmupDecayLR", "steps=5000",
                                 "optimizer.params.lr=0.5"});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->scheduler["total_num_steps"], 5000);
  EXPECT_EQ(config->scheduler["warmup_num_steps"], 1000);
  EXPECT_EQ(config->scheduler["warmup_type"], 0);  // log
  EXPECT_EQ(config->scheduler["warmup_max_lr"], 0.5);
  config = Parse(kMinimal, {"scheduler.type=WarmupCosineLR"});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->scheduler["total_num_steps"], 1000);  // more than 3 steps
  config = Parse(kMinimal, {"scheduler.type=WarmupInverseSqrtLR"});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->scheduler["warmup_type"], 1);  // linear
  EXPECT_THAT(Error({"scheduler.type=WarmupDecayLR",
                     "scheduler.params.total_num_steps=999"}),
              HasSubstr("scheduler.params.total_num_steps: 999 is less than"));
  EXPECT_THAT(
      Error({"scheduler.type=WarmupLR", "scheduler.params.cos_min_ratio=0.5"}),
      HasSubstr("has no meaning for scheduler.type \"WarmupLR\""));
}

TEST(Scheduler, HasHuggingFacesNames) {
  auto config = Parse(kMinimal, {"lr_scheduler_type=cosine_with_min_lr",
                                 "lr_scheduler_kwargs={\"min_lr\": 1e-5}"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->scheduler.row().name, "cosine_with_min_lr");
  EXPECT_EQ(config->scheduler["min_lr"], 1e-5);
  EXPECT_EQ(config->scheduler["total_num_steps"], 3);
  config = Parse(kMinimal, {"lr_scheduler_type=linear",
                            "scheduler.params.warmup_ratio=0.5"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->scheduler["warmup_num_steps"], 2);
  EXPECT_THAT(Error({"lr_scheduler_type=linear", "scheduler.type=cosine"}),
              HasSubstr("another name of scheduler.type"));
  EXPECT_THAT(Error({"lr_scheduler_type=WarmupLR"}),
              HasSubstr("lr_scheduler_type: expected one of \"constant\""));
  EXPECT_THAT(
      Error({"lr_scheduler_type=linear", "lr_scheduler_kwargs.warmup_ratio=0.5",
             "scheduler.params.warmup_ratio=0.5"}),
      HasSubstr("another name of scheduler.params"));
}

TEST(Length, IsStepsOrEpochs) {
  auto config = Parse(kMinimal, {"steps=null", "num_train_epochs=1.5",
                                 "scheduler.type=WarmupDecayLR",
                                 "scheduler.params.warmup_ratio=0.1"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->steps, 0);
  EXPECT_EQ(config->scheduler.unresolved(), "warmup_ratio");
  const int64_t steps =
      StepsOfEpochs(config->num_train_epochs, StepsPerEpoch(/*samples=*/41, 4));
  EXPECT_EQ(steps, 17);  // ceil(1.5 x 11)
  ASSERT_EQ(SetSteps(steps, &*config), absl::OkStatus());
  EXPECT_EQ(config->steps, 17);
  EXPECT_EQ(config->num_train_epochs, 0);
  EXPECT_EQ(config->scheduler.total_steps(), 17);
  EXPECT_EQ(config->scheduler.warmup_steps(), 2);
  EXPECT_THAT(Error({"num_train_epochs=2"}),
              HasSubstr("num_train_epochs: and steps both"));
  EXPECT_THAT(Error({"steps=null"}),
              HasSubstr("steps: is required, unless num_train_epochs"));
  EXPECT_THAT(Error({"steps=null", "num_train_epochs=0"}),
              HasSubstr("num_train_epochs: expected a number in (0"));
  EXPECT_EQ(StepsPerEpoch(1, 100), 1);
  EXPECT_EQ(StepsOfEpochs(1e9, kMaxSteps), kMaxSteps);
}

TEST(Evaluation, NeedsWhatItsKeysSay) {
  const std::string data = "data.validation_fraction=0.5";
  auto config = Parse(kMinimal, {data, "eval_interval=2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->eval_strategy, EvalStrategy::kSteps);
  config = Parse(kMinimal, {data, "eval_strategy=epoch"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->evaluates());
  config = Parse(kMinimal, {data, "eval_interval=2", "eval_strategy=no"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->evaluates());
  EXPECT_THAT(Error({data, "eval_strategy=steps"}),
              HasSubstr("needs eval_interval"));
  EXPECT_THAT(Error({data, "eval_strategy=epoch", "eval_interval=2"}),
              HasSubstr("has no meaning beside \"eval_strategy\""));
  EXPECT_THAT(Error({"eval_strategy=epoch"}),
              HasSubstr("eval_strategy: needs data.validation"));
  EXPECT_THAT(Error({"early_stopping_patience=2"}),
              HasSubstr("early_stopping_patience: needs evaluations"));
  EXPECT_THAT(Error({"early_stopping_threshold=2"}),
              HasSubstr("only beside early_stopping_patience"));
  EXPECT_THAT(Error({"checkpoint.load_best=true"}),
              HasSubstr("checkpoint.load_best: needs evaluations"));
}

}  // namespace
}  // namespace castor
