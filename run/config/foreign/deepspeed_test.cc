#include "run/config/foreign/deepspeed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "run/config/config.h"
#include "run/config/test_models.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kModelAndData[] =
    R"("model": {"n_layer": 2, "n_positions": 16}, "data": {"train": "a.txt"})";

// Parses the keys beside a model and data, as castor train does.
absl::StatusOr<Config> Train(const std::string& keys) {
  return ParseConfig(TestModels(),
                     absl::StrCat("{", kModelAndData, ", ", keys, "}"), "", {},
                     1, "ds.json");
}

std::string ErrorOf(const std::string& keys) {
  const auto config = Train(keys);
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << keys;
  return std::string(config.status().message());
}

TEST(DeepSpeed, IsKnownByKeysThatOnlyItHas) {
  const auto is = [](DeepSpeedDoor door, const char* text) {
    return IsDeepSpeed(door, Json::parse(text));
  };
  constexpr DeepSpeedDoor kTrain = DeepSpeedDoor::kTrain;
  EXPECT_TRUE(is(kTrain, R"({"zero_optimization": {"stage": 1}})"));
  EXPECT_TRUE(is(kTrain, R"({"wall_clock_breakdown": false, "steps": 3})"));
  EXPECT_TRUE(is(kTrain, R"({"fp16": {"auto_cast": false}})"));
  EXPECT_TRUE(is(kTrain, R"({"train_batch_size": "auto"})"));
  EXPECT_TRUE(is(kTrain, R"({"optimizer": {"params": {"lr": "auto"}}})"));
  EXPECT_FALSE(is(kTrain, R"({"memory": {"chunk_size": "auto"}})"));
  EXPECT_FALSE(is(kTrain, R"({"steps": 3, "tensorboard": {}})"));
  EXPECT_FALSE(is(kTrain, "[]"));
  constexpr char kClipping[] =
      R"({"optimizer": {"params": {"max_grad_norm": 1}}})";
  EXPECT_TRUE(is(kTrain, kClipping));
  EXPECT_FALSE(is(DeepSpeedDoor::kClient, kClipping));
  EXPECT_TRUE(is(DeepSpeedDoor::kClient,
                 R"({"steps_per_print": 10, "optimizer": {"params":
                     {"max_grad_norm": 1}}})"));
  EXPECT_FALSE(is(kTrain, R"({"steps": 2, "optimizer": {"params":
                              {"max_grad_norm": 1}}})"));
}

TEST(DeepSpeed, HasItsOwnDefaults) {
  const auto config = Train(
      R"("zero_optimization": true, "train_batch_size": 8, "steps": 5,
         "optimizer": {"type": "adam", "params": {"lr": 0.01}},
         "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2}},
         "bfloat16": {"enabled": true}, "gradient_clipping": 0.5)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->optimizer.rule->name(), "Adam");
  EXPECT_EQ(config->optimizer.rule->Params()["adam_w_mode"], true);
  EXPECT_EQ(config->optimizer.weight_decay, 0);
  EXPECT_EQ(config->optimizer.lr, 0.01);
  EXPECT_EQ(config->gradient_clipping, 0.5);
  EXPECT_TRUE(config->bf16.enabled);
  EXPECT_EQ(config->memory.placement_policy, FindPolicy("auto"));
  EXPECT_EQ(config->notes.lines[0],
            "a configuration of DeepSpeed's, of which these keys mean nothing "
            "here (docs/migration.md): zero_optimization");
  EXPECT_THAT(config->notes.lines,
              Contains("scheduler.params.warmup_max_lr is not given: 0.001, as "
                       "DeepSpeed has it"));
  const auto given = Train(
      R"("zero_optimization": {"stage": 3}, "train_batch_size": 8, "steps": 5,
         "optimizer": {"type": "Adam", "params":
             {"adam_w_mode": false, "weight_decay": 0.2}})");
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->optimizer.rule->Params()["adam_w_mode"], false);
  EXPECT_EQ(given->optimizer.weight_decay, 0.2);
  // Its AdamW is AdamW whatever adam_w_mode says.
  const auto adamw = Train(
      R"("zero_optimization": {"stage": 3}, "train_batch_size": 8, "steps": 5,
         "optimizer": {"type": "adamw", "params": {"adam_w_mode": false}})");
  ASSERT_TRUE(adamw.ok()) << adamw.status();
  EXPECT_EQ(adamw->optimizer.rule->name(), "AdamW");
  EXPECT_THAT(adamw->notes.lines,
              Contains(HasSubstr("optimizer.params.adam_w_mode")));
  // torch.optim.AdamW has a decay by itself.
  const auto torch = Train(
      R"("zero_optimization": {"stage": 0}, "train_batch_size": 8, "steps": 5,
         "optimizer": {"type": "AdamW", "params": {"torch_adam": true}})");
  ASSERT_TRUE(torch.ok()) << torch.status();
  EXPECT_EQ(torch->optimizer.weight_decay, 0.01);
}

TEST(DeepSpeed, TakesAutoForAbsent) {
  const auto config = Train(
      R"("zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"},
         "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
         "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
         "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "steps": 9,
         "optimizer": {"type": "AdamW", "params":
             {"lr": "auto", "betas": "auto", "eps": "auto",
              "weight_decay": "auto"}},
         "scheduler": {"type": "WarmupDecayLR", "params":
             {"warmup_min_lr": "auto", "warmup_max_lr": "auto",
              "warmup_num_steps": 2, "total_num_steps": "auto"}})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->train_micro_batch_size_per_gpu, 8);
  EXPECT_EQ(config->train_batch_size, 8);
  EXPECT_EQ(config->dtype(), DType::kFloat32);
  EXPECT_EQ(config->gradient_clipping, 0);
  EXPECT_EQ(config->optimizer.lr, kDefaultRate);
  EXPECT_THAT(config->notes.lines,
              Contains(AllOf(HasSubstr("\"auto\" counts as absent: "),
                             HasSubstr("optimizer.params.betas"),
                             HasSubstr("scheduler.params.total_num_steps"))));
}

TEST(DeepSpeed, SaysHowLongARunIsThatDoesNot) {
  const auto config = Train(
      R"("zero_optimization": {"stage": 2}, "train_batch_size": 8,
         "scheduler": {"type": "WarmupDecayLR", "params":
             {"total_num_steps": 30, "warmup_num_steps": 3}})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->steps, 30);
  const auto epoch = Train(R"("zero_optimization": {}, "train_batch_size": 8)");
  ASSERT_TRUE(epoch.ok()) << epoch.status();
  EXPECT_EQ(epoch->num_train_epochs, 1);
  EXPECT_THAT(epoch->notes.lines,
              Contains("neither steps nor num_train_epochs is given: "
                       "num_train_epochs is 1, one pass over the data"));
}

TEST(DeepSpeed, NamesLionAndSgdAsItLikes) {
  const auto lion = Train(
      R"("zero_optimization": {}, "train_batch_size": 8, "steps": 5,
         "optimizer": {"type": "LION", "params":
             {"lr": 1e-4, "betas": [0.95, 0.98], "weight_decay": 0.2}})");
  ASSERT_TRUE(lion.ok()) << lion.status();
  EXPECT_EQ(lion->optimizer.rule->name(), "Lion");
  EXPECT_EQ(lion->optimizer.rule->Params()["betas"][1], 0.98);
  EXPECT_EQ(lion->optimizer.weight_decay, 0.2);
  const auto sgd = Train(
      R"("zero_optimization": {}, "train_batch_size": 8, "steps": 5,
         "optimizer": {"type": "sgd", "params":
             {"lr": 0.1, "momentum": 0.9, "nesterov": true}})");
  ASSERT_TRUE(sgd.ok()) << sgd.status();
  EXPECT_EQ(sgd->optimizer.rule->Params()["momentum"], 0.9);
  EXPECT_EQ(sgd->optimizer.weight_decay, 0);
}

TEST(DeepSpeed, RefusesInOneMessageWhatItCannotHave) {
  const std::string error = ErrorOf(
      R"("zero_optimization": {"stage": 4, "stage3_magic": 1,
                               "zero_quantized_gradients": true,
                               "zero_quantized_weights": false},
         "train_batch_size": 8, "steps": 5, "flops_profiler": {},
         "optimizer": {"type": "OneBitAdam", "params": {"lr": 0.1}},
         "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1}},
         "sparse_attention": {"mode": "fixed"}, "amp": {"enabled": false},
         "curriculum_learning": {"enabled": true}, "wall_clock": true)");
  for (const char* const named :
       {"ds.json: zero_optimization.stage: expected a stage from 0 to 3, "
        "found",
        "ds.json: zero_optimization.stage3_magic: DeepSpeed has no such key",
        "zero_optimization.zero_quantized_gradients: it changes results",
        "optimizer.type: castor's optimizers are AdamW, Adam, AdamW8bit, "
        "AdamW16bit, Lamb, Lion, Lion8bit, SGD, Adafactor, and "
        "OneBitAdam is none of them: give \"Adam\"",
        "scheduler.type: castor has no schedule \"OneCycle\"",
        "sparse_attention: it changes results, and castor does not have it: ",
        "curriculum_learning: it changes", "wall_clock: unknown key"}) {
    EXPECT_THAT(error, HasSubstr(named));
  }
  EXPECT_THAT(error, Not(HasSubstr("zero_quantized_weights")));
  EXPECT_THAT(error, Not(HasSubstr("amp: ")));
  EXPECT_THAT(error, Not(HasSubstr("flops_profiler")));
  EXPECT_THAT(error, Not(HasSubstr("cycle_min_lr")));
}

TEST(DeepSpeed, IsReadByClientsToo) {
  const auto config = ParseClientConfig(
      R"({"zero_optimization": {"stage": 3,
              "offload_param": {"device": "cpu"}},
          "steps_per_print": 10, "train_batch_size": "auto",
          "train_micro_batch_size_per_gpu": 2,
          "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}})",
      "ds.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->train_batch_size, 2);
  EXPECT_EQ(config->optimizer.weight_decay, 0);
  EXPECT_EQ(config->steps, 0);
  const DeepSpeedReading reading =
      ReadDeepSpeed(DeepSpeedDoor::kClient,
                    Json::parse(R"({"optimizer": {"type": "AdamW", "params":
                          {"lr": "auto"}}})"));
  EXPECT_THAT(reading.autos, ElementsAre("optimizer.params.lr"));
  EXPECT_THAT(reading.defaults, ElementsAre("optimizer.params.weight_decay"));
  const auto ours = ParseClientConfig(R"({"seed": 3})");
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_THAT(ours->notes.lines, IsEmpty());
}

TEST(ColossalAi, ItsSectionIsReadAsCastorsKeys) {
  constexpr char kRest[] = R"("train_batch_size": 8, "steps": 5, "zero": )";
  const auto config = Train(absl::StrCat(kRest, R"({
      "model_config": {"tensor_placement_policy": "CPU",
                       "shard_strategy": "TensorShardStrategy"},
      "optimizer_config": {"gpu_margin_mem_ratio": 0.8, "hysteresis": 3}})"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->memory.placement_policy, FindPolicy("cpu"));
  EXPECT_EQ(config->memory.gpu_margin_mem_ratio, 0.8);
  EXPECT_EQ(config->fp16.hysteresis, 3);
  EXPECT_THAT(config->notes.lines,
              Contains("a section \"zero\" of Colossal-AI's, of which these "
                       "keys mean nothing here (docs/migration.md): "
                       "zero.model_config.shard_strategy"));
  const auto client = ParseClientConfig(
      R"({"zero": {"model_config": {"tensor_placement_policy": "cuda"}}})",
      "config");
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(client->memory.placement_policy, FindPolicy("cuda"));
  // Castor's own key may say the same, and nothing else.
  EXPECT_TRUE(Train(absl::StrCat(kRest, R"({"model_config": {
      "tensor_placement_policy": "AUTO"}},
      "memory": {"placement_policy": "auto"})"))
                  .ok());
  EXPECT_THAT(
      ErrorOf(absl::StrCat(kRest, R"({
          "model_config": {"tensor_placement_policy": "auto", "reuse": 1},
          "optimizer_config": {"gpu_margin_mem_ratio": 2, "max_scale": 9}},
          "memory": {"placement_policy": "cpu"})")),
      AllOf(HasSubstr("zero.model_config.tensor_placement_policy: it is "
                      "\"auto\", and memory.placement_policy is \"cpu\": "
                      "leave one of them out"),
            HasSubstr("zero.model_config.reuse: Colossal-AI has no such key"),
            HasSubstr("memory.gpu_margin_mem_ratio: "),
            HasSubstr("zero.optimizer_config.max_scale: castor's loss scale "
                      "has no such key")));
}

}  // namespace
}  // namespace castor
