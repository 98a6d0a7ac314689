#include "base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error_list.h"

namespace castor {
namespace {

using ::testing::ElementsAre;

TEST(Settings, AreTheLeavesOfJson) {
  const Settings settings = FlattenSettings(
      R"({"a": {"b": 0.1, "c": {"d": "x"}}, "e": [1, {"f": 2}], "g": null})");
  const Settings expected = {{"a.b", "0.1"},
                             {"a.c.d", "\"x\""},
                             {"e", "[1,{\"f\":2}]"},
                             {"g", "null"}};
  EXPECT_EQ(settings, expected);
}

TEST(Settings, SayEachThatDiffersFromRankZeros) {
  const Settings first = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  EXPECT_TRUE(CheckSameSettings(first, first).ok());
  const absl::Status status =
      CheckSameSettings({{"a", "1"}, {"b", "0.2"}, {"d", "4"}}, first);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(ErrorsOf(status),
              ElementsAre("b is 0.2, on rank 0 2: give all ranks the same",
                          "c is absent, on rank 0 3: give all ranks the same",
                          "d is 4, on rank 0 absent: give all ranks the same"));
  Settings many;
  for (int i = 0; i < 1000; ++i) many[absl::StrCat(i)] = "1";
  EXPECT_EQ(ErrorsOf(CheckSameSettings(many, {})).size(), 20u);
}

TEST(Settings, SurviveTheirText) {
  for (const Settings& settings :
       {Settings(), Settings{{"a", "1"}, {"b.c", "\"\\u0000\""}, {"", ""}}}) {
    EXPECT_EQ(ReadSettingsText(SettingsText(settings)), settings);
  }
  EXPECT_NE(SettingsText({{"a", "bc"}}), SettingsText({{"ab", "c"}}));
}

}  // namespace
}  // namespace castor
