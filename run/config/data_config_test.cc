// The section "data".
#include "run/config/data_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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
      {"data.packing=rows", "data.packing: \"rows\" is not supported yet"},
      {"data.loss_on=user", "data.loss_on: expected"},
      {"data.format=chat", "data.format: expected"},
      {"data.keys={\"txt\": \"a\"}", "data.keys.txt: unknown key"},
      {"data.keys={\"text\": \"\"}",
       "data.keys.text: expected the key's name in the files"},
      {"data.keys={\"prompt\": \"a\", \"completion\": \"a\"}",
       "\"a\" is the name of two keys"},
  };
  for (const auto& [set, says] : kCases) {
    const auto status = ParseConfig(TestModels(), kMinimal, "", {set}).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(says)) << set;
  }
}

}  // namespace
}  // namespace castor
