// The section "data".
#include "run/config/data_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "run/config/config.h"
#include "run/config/test_models.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMinimal[] = R"({"model": {"n_layer": 2, "n_positions": 16},
  "data": {"train": "a.txt"}, "steps": 3, "train_batch_size": 4})";

TEST(DataConfig, NamesSources) {
  const absl::StatusOr<Config> config = ParseConfig(
      TestModels(), kMinimal, "/base",
      {R"(data.train=["a.txt", {"path": "b*", "weight": 2.5}])",
       R"(data.validation={"path": "/c/"})", R"(data.keys={"text": "body"})",
       "data.loss_on=all", "data.packing=none", "data.format=text"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->data.train, ElementsAre(DataSource{"/base/a.txt", 0},
                                              DataSource{"/base/b*", 2.5}));
  EXPECT_THAT(config->data.validation, ElementsAre(DataSource{"/c/", 0}));
  EXPECT_EQ(config->data.keys.at("text"), "body");
  const absl::StatusOr<Config> again =
      ParseConfig(TestModels(), ConfigToJson(*config), "");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->data, config->data);
}

TEST(DataConfig, SaysWhatIsWrong) {
  const struct {
    const char* set;
    const char* says;
  } kCases[] = {
      {"data.train=[]", "data.train: expected the name of a file"},
      {"data.train=[\"a.txt\", 3]", "or a list of these, found 3"},
      {"data.train={\"path\": \"a\", \"weight\": 0}",
       "expected a \"weight\" that is a number in (0, 1e+06], found 0"},
      {"data.train={\"path\": \"a\", \"weigth\": 1}",
       "data.train: unknown key weigth: a source has"},
      {"data.train={\"weight\": 1}", "data.train: expected the name of a file"},
      {"data.validation={\"path\": \"a\", \"weight\": 1}",
       "data.validation: a weight has no meaning for evaluations"},
      {"data.packing=row", "data.packing: expected"},
      {"data.loss_on=user", "data.loss_on: expected"},
      {"data.format=chat", "data.format: expected"},
      {"data.keys={\"txt\": \"a\"}", "data.keys.txt: unknown key"},
      {"data.keys={\"text\": \"\"}",
       "data.keys.text: expected the key's name in the files"},
      {"data.keys={\"prompt\": \"a\", \"completion\": \"a\"}",
       "\"a\" is the name of two keys"},
      {"data.shuffle_window=3",
       "data.shuffle_window: has a meaning only beside \"streaming\": true"},
  };
  for (const auto& [set, says] : kCases) {
    const auto status = ParseConfig(TestModels(), kMinimal, "", {set}).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(says)) << set;
  }
}

TEST(DataConfig, StreamsWhereNothingWantsToKnowTheEnd) {
  const std::vector<std::string> sets = {
      "data.streaming=true", "data.shuffle_window=100", "eval_interval=2",
      "data.validation=b.txt"};
  const auto config = ParseConfig(TestModels(), kMinimal, "", sets);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->data.streaming);
  EXPECT_EQ(config->data.shuffle_window, 100);
  const auto again = ParseConfig(TestModels(), ConfigToJson(*config), "");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->data, config->data);

  const struct {
    std::vector<std::string> sets;
    const char* says;
  } kCases[] = {
      {{"num_train_epochs=2", "steps=null"},
       "num_train_epochs: cannot be had with \"streaming\": true"},
      {{"num_train_epochs=2"},
       "num_train_epochs: cannot be had with \"streaming\": true"},
      {{"eval_strategy=epoch", "eval_interval=0"},
       "eval_strategy: \"epoch\" cannot be had with \"streaming\": true"},
      {{"data.validation_fraction=0.1"},
       "data.validation_fraction: cannot be had with \"streaming\": true"},
      {{"data.packing=rows"},
       "data.packing: \"rows\" cannot be had with \"streaming\": true"},
      {{"data.validation=null"}, "eval_interval: needs data.validation"},
      {{"data.shuffle_window=0"}, "data.shuffle_window: expected"},
  };
  for (const auto& [more, says] : kCases) {
    std::vector<std::string> all = sets;
    all.insert(all.end(), more.begin(), more.end());
    const auto status = ParseConfig(TestModels(), kMinimal, "", all).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(says)) << says;
  }
}

}  // namespace
}  // namespace castor
