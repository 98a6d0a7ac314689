#include "base/strict_json.h"

#include <string>

#include "base/strict_ordered_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(absl::string_view text, const JsonLimits& limits = {}) {
  auto parsed = ParseStrictJson(text, limits);
  EXPECT_FALSE(parsed.ok()) << text;
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

TEST(StrictJson, BuildsWhatTheLibraryItselfBuilds) {
  for (const char* text :
       {"{}", "[]", "3", "-3", "2.5", "\"x\"", "null", "true",
        R"({"a":[1,{"b":[[],{}]},"t"],"c":{"d":{"e":[0.5,null,false]}}})",
        R"([[1,2],[3,[4,5,[6]]],{"k":[7]}])", " { \"a\" : 1 }  \n"}) {
    auto parsed = ParseStrictJson(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, nlohmann::json::parse(text)) << text;
  }
}

TEST(StrictJson, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "{\"a\"}", "[1,]", "nul", "{} x", "1e999",
                           "\"\xff\"", "{'a':1}", "[01]"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("not valid JSON")) << text;
  }
}

TEST(StrictJson, SaysWhereANulByteIs) {
  const std::string text("{\"a\": 1}\0{\"b\": 2}", 17);
  EXPECT_THAT(ErrorOf(text), HasSubstr("a NUL byte at byte 9"));
  EXPECT_FALSE(ParseStrictOrderedJson(text).ok());
}

TEST(StrictJson, RefusesAKeyThatAppearsTwice) {
  EXPECT_THAT(ErrorOf(R"({"a":1,"b":{"c":1,"c":2}})"),
              HasSubstr("\"c\" appears twice"));
}

TEST(StrictJson, KeepsTheOrderOfKeysWhereAsked) {
  const std::string text =
      R"({"b":[1,{"z":null,"a":"\u00e9"},-2.5e-1,true],"a":{},"c":[[]]})";
  const auto json = ParseStrictOrderedJson(text);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->dump(-1, ' ', /*ensure_ascii=*/true),
            R"({"b":[1,{"z":null,"a":"\u00e9"},-0.25,true],"a":{},"c":[[]]})");
  for (const char* bad : {R"({"a":1,"a":2})", "[18446744073709551616]", "[1"}) {
    EXPECT_EQ(ParseStrictOrderedJson(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

TEST(StrictJson, BoundsDepth) {
  JsonLimits limits;
  limits.max_depth = 3;
  EXPECT_TRUE(ParseStrictJson("[[[1]]]", limits).ok());
  EXPECT_THAT(ErrorOf("[[[[1]]]]", limits), HasSubstr("deeper than 3"));
  // A million levels would overflow a recursive parser's stack.
  EXPECT_THAT(ErrorOf(std::string(1'000'000, '[')), HasSubstr("deeper"));
}

TEST(StrictJson, BoundsTheNumberOfValues) {
  JsonLimits limits;
  limits.max_values = 4;
  EXPECT_TRUE(ParseStrictJson("[1,2,3]", limits).ok());
  EXPECT_THAT(ErrorOf("[1,2,3,4]", limits), HasSubstr("more than 4 values"));
}

TEST(StrictJson, ErrorsStayShortAndPrintable) {
  const std::string message = ErrorOf("\"" + std::string(100'000, 'x'));
  EXPECT_LT(message.size(), 500u);
  EXPECT_EQ(QuotedForMessage("a\x1b[2J"), "\"a\\x1b[2J\"");
  EXPECT_LT(QuotedForMessage(std::string(1000, 'y')).size(), 300u);
}

}  // namespace
}  // namespace castor
