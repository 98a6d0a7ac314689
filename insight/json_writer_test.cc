#include "insight/json_writer.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "insight/utf8.h"
#include "nlohmann/json.hpp"
#include "rapidcheck/gtest.h"

namespace castor {
namespace {

std::string Written(absl::string_view text) {
  std::string out;
  JsonWriter(&out).String(text);
  return out;
}

TEST(JsonWriter, SeparatesValuesAndNests) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Int("a", 1);
  json.Key("b");
  json.BeginArray();
  json.String("x");
  json.BeginObject();
  json.EndObject();
  json.Null();
  json.EndArray();
  json.Bool("c", true);
  json.EndObject();
  EXPECT_EQ(out, R"({"a":1,"b":["x",{},null],"c":true})");
}

TEST(JsonWriter, CanBeEmptiedBetweenValues) {
  std::string out, all;
  JsonWriter json(&out);
  json.BeginArray();
  json.Int(1);
  all += out;
  out.clear();
  json.Int(2);
  json.EndArray();
  EXPECT_EQ(all + out, "[1,2]");
}

TEST(JsonWriter, StopsAtTheIntegersThatAllReadersCanTellApart) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray();
  json.Int(std::numeric_limits<int64_t>::max());
  json.Int(std::numeric_limits<int64_t>::min());
  json.EndArray();
  EXPECT_EQ(out, "[9007199254740991,-9007199254740991]");
}

TEST(JsonWriter, WritesNumbersThatAreNotFiniteAsNull) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray();
  json.Double(std::numeric_limits<double>::quiet_NaN());
  json.Double(std::numeric_limits<double>::infinity());
  json.Double(0.1);
  json.EndArray();
  EXPECT_EQ(out, "[null,null,0.10000000000000001]");
}

TEST(JsonWriter, CannotEndAScript) {
  EXPECT_EQ(Written("</script>&"), R"("\u003c/script\u003e\u0026")");
}

TEST(JsonWriter, EscapesControlCharactersAndQuotes) {
  EXPECT_EQ(Written(absl::string_view("\"\\\n\0\x7F", 5)),
            R"("\"\\\u000a\u0000\u007f")");
}

TEST(JsonWriter, ReplacesBytesThatAreNoUtf8) {
  EXPECT_EQ(Written("a\xC3\xA9\xFF"
                    "b"),
            "\"a\xC3\xA9\xEF\xBF\xBD"
            "b\"");
  // Cut off, longer than it need be, a surrogate, beyond U+10FFFF.
  for (const char* const bytes :
       {"\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_EQ(Written(bytes).find(bytes), std::string::npos);
  }
}

RC_GTEST_PROP(JsonWriter, WhatIsWrittenReadsBackAsValidText,
              (const std::string& text)) {
  const std::string read =
      nlohmann::json::parse(Written(text)).get<std::string>();
  RC_ASSERT(read == ValidUtf8(text));
}

}  // namespace
}  // namespace castor
