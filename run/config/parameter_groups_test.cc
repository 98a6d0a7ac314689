// "optimizer.groups".
#include "run/config/parameter_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "run/config/config.h"
#include "run/config/test_models.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Config> Parse(const std::string& groups) {
  return ParseConfig(TestModels(),
                     R"({"model": {"n_layer": 2, "n_positions": 16},
                         "data": {"train": "a.txt"}, "steps": 3,
                         "optimizer": {"params": {"lr": 0.5, "weight_decay": 2},
                                       "no_decay": ["*.bias"]},
                         "train_batch_size": 4})",
                     "", {"optimizer.groups=" + groups});
}

constexpr char kGroups[] =
    R"([{"params": ["a.*", "b.?"], "lr": 1}, {"params": ["*"],
         "weight_decay": 3}])";

TEST(ParameterGroups, FirstOneThatMatchesHasTheParameter) {
  const absl::StatusOr<Config> config = Parse(kGroups);
  ASSERT_TRUE(config.ok()) << config.status();
  const struct {
    const char* name;
    double weight_decay, lr_factor;
  } kCases[] = {{"a.weight", 2, 2},
                {"a.bias", 0, 2},
                {"b.w", 2, 2},
                {"b.ww", 3, 1},
                {"c.bias", 0, 1}};
  for (const auto& [name, weight_decay, lr_factor] : kCases) {
    const UpdateNumbers numbers = NumbersOf(config->optimizer, name);
    EXPECT_EQ(numbers.weight_decay, weight_decay) << name;
    EXPECT_EQ(numbers.lr_factor, lr_factor) << name;
  }
  const UpdateNumbers plain = NumbersOf(OptimizerConfig(), "a");
  EXPECT_EQ(plain.weight_decay, OptimizerConfig().weight_decay);
  EXPECT_EQ(plain.lr_factor, 1);
}

TEST(ParameterGroups, SurviveBeingWrittenAndShowOnlyWhereTheyAre) {
  const absl::StatusOr<Config> config = Parse(kGroups);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto again = ParseConfig(TestModels(), ConfigToJson(*config), "");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *config);
  const absl::StatusOr<Config> none = Parse("[]");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->optimizer == config->optimizer);
  EXPECT_THAT(ConfigToJson(*none), ::testing::Not(HasSubstr("groups")));
}

TEST(ParameterGroups, SayWhatIsWrongWithTheText) {
  const struct {
    const char* groups;
    const char* says;
  } kCases[] = {
      {"3", "optimizer.groups: expected a list of objects, found 3"},
      {"[3]", "optimizer.groups[0]: expected an object {...}, found 3"},
      {R"([{"lr": 1}])", "optimizer.groups[0].params: is required"},
      {R"([{"params": [], "lr": 1}])",
       "optimizer.groups[0].params: expected a list of patterns"},
      {R"([{"params": "a*", "lr": 1}])",
       "optimizer.groups[0].params: expected a list of strings"},
      {R"([{"params": ["a"], "lr": 1}, {"params": ["b"]}])",
       "optimizer.groups[1].lr: is required, unless weight_decay is given"},
      {R"([{"params": ["a"], "lr": -1}])",
       "optimizer.groups[0].lr: expected a number in [0.0, 1e+38]"},
      {R"([{"params": ["a"], "lr": 1, "betas": [0, 0]}])",
       "optimizer.groups[0].betas: unknown key"},
  };
  for (const auto& [groups, says] : kCases) {
    const std::string message(Parse(groups).status().message());
    EXPECT_THAT(message, HasSubstr(says)) << groups;
    EXPECT_THAT(message, HasSubstr("--set optimizer.groups=")) << groups;
  }
  const auto frozen =
      ParseConfig(TestModels(),
                  R"({"model": {"n_layer": 2, "n_positions": 16},
          "data": {"train": "a.txt"}, "steps": 3, "train_batch_size": 4,
          "optimizer": {"params": {"lr": 0},
                        "groups": [{"params": ["a"], "lr": 1}]}})",
                  "");
  EXPECT_THAT(std::string(frozen.status().message()),
              HasSubstr("cannot stand beside optimizer.params.lr 0"));
  const auto factor = [](const std::string& relative_step) {
    return std::string(
        ParseConfig(TestModels(),
                    R"({"model": {"n_layer": 2, "n_positions": 16},
            "data": {"train": "a.txt"}, "steps": 3, "train_batch_size": 4,
            "optimizer": {"type": "Adafactor", "params": {"relative_step": )" +
                        relative_step + R"(},
                          "groups": [{"params": ["a"], "lr": 1e-4}]}})",
                    "")
            .status()
            .message());
  };
  EXPECT_THAT(factor("true"), HasSubstr("optimizer.groups[0].lr: goes with "
                                        "relative_step false"));
  EXPECT_EQ(factor("false"), "");
}

TEST(ParameterGroups, PatternWithoutAParameterIsAnError) {
  const std::vector<std::string> trained = {"a.weight", "a.bias", "b.w", "c.w"};
  const auto check = [&](const std::string& groups) {
    const absl::StatusOr<Config> config = Parse(groups);
    EXPECT_TRUE(config.ok()) << config.status();
    return std::string(
        CheckParameterGroups(config->optimizer, trained).message());
  };
  EXPECT_EQ(check(kGroups), "");
  EXPECT_EQ(check(R"([{"params": ["a.*", "d.*"], "lr": 1}])"),
            "optimizer.groups[0].params: \"d.*\" matches no parameter that is "
            "trained; their names are like \"a.weight\"");
  EXPECT_EQ(check(R"([{"params": ["a.*"], "lr": 1},
                      {"params": ["*.bias"], "lr": 2}])"),
            "optimizer.groups[1].params: \"*.bias\" matches nothing that "
            "earlier groups do not have: \"a.bias\" is in "
            "optimizer.groups[0]; put the narrower group first");
}

}  // namespace
}  // namespace castor
