// "optimizer", but for its groups (parameter_groups_test.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "run/config/config.h"
#include "run/config/test_models.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Config> Parse(const std::vector<std::string>& overrides) {
  return ParseConfig(TestModels(),
                     R"({"model": {"n_layer": 2, "n_positions": 16},
                         "data": {"train": "a.txt"}, "steps": 3,
                         "train_batch_size": 4})",
                     "", overrides);
}

std::string Error(const std::vector<std::string>& overrides) {
  const auto config = Parse(overrides);
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument)
      << testing::PrintToString(overrides);
  return std::string(config.status().message());
}

TEST(Optimizer, AdamDecaysByL2UnlessTold) {
  auto config = Parse({"optimizer.type=Adam"});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->optimizer.rule->name(), "Adam");
  EXPECT_EQ(config->optimizer.rule->Params()["adam_w_mode"], false);
  EXPECT_EQ(config->optimizer.weight_decay, 0);
  config = Parse({"optimizer.type=Adam", "optimizer.params.adam_w_mode=true"});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->optimizer.rule->name(), "Adam");
  EXPECT_EQ(config->optimizer.rule->Params()["adam_w_mode"], true);
}

// transformers' Adafactor takes a second eps of 0, which leaves small
// parameters small.
TEST(Optimizer, AdafactorDividesByNoSquareThatIsZero) {
  const char kType[] = "optimizer.type=Adafactor";
  for (const char* eps : {"[1e-30,0]", "[1e-37,2]"}) {
    const auto config =
        Parse({kType, absl::StrCat("optimizer.params.eps=", eps)});
    EXPECT_TRUE(config.ok()) << config.status();
  }
  EXPECT_THAT(Error({kType, "optimizer.params.eps=[0,0.001]"}),
              HasSubstr("optimizer.params.eps: the first is at least 1e-37"));
  EXPECT_THAT(Error({kType, "optimizer.params.eps=[1e-30,-1]"}),
              HasSubstr("optimizer.params.eps: expected"));
}

TEST(Optimizer, BiasCorrectionMayBeLeftOut) {
  for (const char* type : {"Adam", "AdamW"}) {
    const std::string of_type = absl::StrCat("optimizer.type=", type);
    const auto with = Parse({of_type});
    const auto without =
        Parse({of_type, "optimizer.params.bias_correction=false"});
    ASSERT_TRUE(with.ok() && without.ok()) << without.status();
    EXPECT_EQ(without->optimizer.rule->Params()["bias_correction"], false);
    EXPECT_FALSE(with->optimizer == without->optimizer);
    const auto again = ParseConfig(TestModels(), ConfigToJson(*without), "");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->optimizer == without->optimizer);
  }
}

TEST(Optimizer, MaxGradNormIsAnotherNameOfGradientClipping) {
  auto config = Parse({"optimizer.params.max_grad_norm=0.5"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->gradient_clipping, 0.5);
  const auto again = ParseConfig(TestModels(), ConfigToJson(*config), "");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->gradient_clipping, 0.5);
  config =
      Parse({"optimizer.params.max_grad_norm=0.5", "gradient_clipping=0.5"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->gradient_clipping, 0.5);
  for (const char* other : {"gradient_clipping=1", "gradient_clipping=0"}) {
    EXPECT_THAT(Error({"optimizer.params.max_grad_norm=0.5", other}),
                HasSubstr("optimizer.params.max_grad_norm: 0.5 is not "
                          "gradient_clipping"));
  }
  EXPECT_THAT(Error({"optimizer.params.max_grad_norm=-1"}),
              HasSubstr("optimizer.params.max_grad_norm: expected"));
}

}  // namespace
}  // namespace castor
