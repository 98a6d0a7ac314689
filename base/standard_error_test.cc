#include "base/standard_error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/error_list.h"

namespace castor {
namespace {

using Json = nlohmann::json;

std::string Said(void (*say)()) {
  ::testing::internal::CaptureStderr();
  say();
  return ::testing::internal::GetCapturedStderr();
}

void TellTwoErrors() {
  TellError("castor",
            ErrorList(absl::StatusCode::kInvalidArgument,
                      {"a.json: steps: is \"x\"", "a.json: \xff: unknown"}),
            2);
}

std::string WithoutMemory(const char* message) {
  char line[512];
  FormatErrorWithoutMemory(message, "RESOURCE_EXHAUSTED", 1, line,
                           sizeof(line));
  return line;
}

// One test, since nothing makes errors text again.
TEST(StandardError, ErrorsAndNotesAreTextAndThenJson) {
  EXPECT_FALSE(ErrorsAreJson());
  EXPECT_EQ(Said(TellTwoErrors),
            "castor: a.json: steps: is \"x\"\ncastor: a.json: \xff: unknown\n");
  EXPECT_EQ(Said([] { TellNote("castor launch", "it goes on"); }),
            "castor launch: it goes on\n");
  EXPECT_EQ(WithoutMemory("no \"room\""), "castor: no \"room\"\n");
  const std::string long_line = WithoutMemory(std::string(999, 'x').c_str());
  EXPECT_EQ(long_line.size(), 511);
  EXPECT_EQ(long_line.back(), '\n');

  WriteErrorsAsJson();
  EXPECT_TRUE(ErrorsAreJson());
  const std::vector<std::string> lines =
      absl::StrSplit(Said(TellTwoErrors), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(Json::parse(lines[0]), (Json{{"level", "error"},
                                         {"program", "castor"},
                                         {"message", "a.json: steps: is \"x\""},
                                         {"code", "INVALID_ARGUMENT"},
                                         {"exit_status", 2}}));
  EXPECT_EQ(Json::parse(lines[1])["message"], "a.json: \xef\xbf\xbd: unknown");
  EXPECT_EQ(Json::parse(Said([] { TellNote("castor launch", "it goes on"); })),
            (Json{{"level", "note"},
                  {"program", "castor launch"},
                  {"message", "it goes on"}}));
  EXPECT_EQ(Json::parse(WithoutMemory("no \"room\" in C:\\\n")),
            (Json{{"level", "error"},
                  {"program", "castor"},
                  {"message", "no  room  in C:  "},
                  {"code", "RESOURCE_EXHAUSTED"},
                  {"exit_status", 1}}));
  EXPECT_TRUE(absl::EndsWith(WithoutMemory(std::string(999, 'x').c_str()),
                             "\"exit_status\":1}\n"));
}

}  // namespace
}  // namespace castor
