#include "base/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/units.h"
#include "nlohmann/json.hpp"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JsonReader, ReadsEveryType) {
  const Json json = Json::parse(R"({
    "bool": true, "int": -7, "integral": 3e2, "double": 0.5, "whole": 2,
    "string": "x", "choice": "b", "bytes": 4096, "unit": "1.5KiB",
    "unlimited": "unlimited", "strings": ["p", "q"], "pair": [0.9, 0],
    "object": {"inner": 1}, "null": null})");
  JsonReport report("file");
  JsonReader reader(json, report);
  bool flag = false;
  int64_t number = 0, integral = 0, bytes = 0, unit = 0, unlimited = 0,
          inner = 0, kept = 42;
  double fraction = 0, whole = 0;
  double pair[2] = {};
  int choice = 0;
  std::string text;
  std::vector<std::string> strings;
  reader.Bool("bool", &flag);
  reader.Int("int", &number);
  reader.Int("integral", &integral);
  reader.Double("double", &fraction);
  reader.Double("whole", &whole);
  reader.String("string", &text);
  reader.Choice("choice", {"a", "b"}, &choice);
  reader.Bytes("bytes", &bytes);
  reader.Bytes("unit", &unit);
  reader.Bytes("unlimited", &unlimited, Unlimited::kAllowed);
  reader.Strings("strings", &strings);
  reader.Doubles("pair", absl::MakeSpan(pair));
  reader.Int("null", &kept);
  reader.Int("absent", &kept);
  JsonReader object = reader.Object("object");
  object.Int("inner", &inner);
  object.RefuseUnknownKeys();
  JsonReader none = reader.Object("no_object");
  none.Int("inner", &kept);
  reader.RefuseUnknownKeys();

  EXPECT_TRUE(report.status().ok()) << report.status();
  EXPECT_TRUE(flag);
  EXPECT_EQ(number, -7);
  EXPECT_EQ(integral, 300);
  EXPECT_EQ(fraction, 0.5);
  EXPECT_EQ(whole, 2);
  EXPECT_EQ(text, "x");
  EXPECT_EQ(choice, 1);
  EXPECT_EQ(bytes, 4096);
  EXPECT_EQ(unit, 1536);
  EXPECT_EQ(unlimited, kUnlimitedBytes);
  EXPECT_THAT(strings, ElementsAre("p", "q"));
  EXPECT_THAT(pair, ElementsAre(0.9, 0.0));
  EXPECT_EQ(inner, 1);
  EXPECT_EQ(kept, 42);
}

TEST(JsonReader, TellsNullFromAbsent) {
  const Json json = Json::parse(R"({"none": null, "zero": 0})");
  JsonReport report("file");
  JsonReader reader(json, report);
  EXPECT_TRUE(reader.IsNull("none"));
  EXPECT_FALSE(reader.IsNull("zero"));
  EXPECT_FALSE(reader.IsNull("absent"));
  reader.RefuseUnknownKeys();
  EXPECT_TRUE(report.status().ok()) << report.status();
}

// The message that `read` leaves for the document `text`.
template <typename Read>
std::string MessageOf(const char* text, Read read) {
  const Json json = Json::parse(text);
  JsonReport report("file");
  JsonReader reader(json, report);
  read(reader);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(report.status().message());
}

TEST(JsonReader, SaysWhatWasExpectedAndWhatWasFound) {
  int64_t number = 5;
  double fraction = 5;
  const auto as_int = [&](JsonReader& r) {
    r.Int("k", &number, {.min = 1, .max = 9});
  };
  EXPECT_EQ(MessageOf(R"({"k": 10})", as_int),
            "file: k: expected an integer from 1 to 9, found 10");
  EXPECT_EQ(MessageOf(R"({"k": "3"})", as_int),
            "file: k: expected an integer from 1 to 9, found the string \"3\"");
  for (const char* bad :
       {R"({"k": 2.5})", R"({"k": true})", R"({"k": [1]})", R"({"k": {}})",
        R"({"k": 18446744073709551615})", R"({"k": 1e300})", R"({"k": -1})"}) {
    EXPECT_THAT(MessageOf(bad, as_int), HasSubstr("k: expected an integer"));
  }
  const auto as_double = [&](JsonReader& r) {
    r.Double("k", &fraction, {.min = 0, .max = 1, .max_open = true});
  };
  for (const char* bad : {R"({"k": 1})", R"({"k": -0.1})", R"({"k": "NaN"})",
                          R"({"k": false})", R"({"k": []})"}) {
    EXPECT_THAT(MessageOf(bad, as_double),
                HasSubstr("k: expected a number in [0.0, 1.0), found "));
  }
  EXPECT_EQ(number, 5);  // what is refused leaves the default
  EXPECT_EQ(fraction, 5);
}

TEST(JsonReader, RefusesNumbersThatAreNone) {
  Json json = {{"nan", std::nan("")}, {"infinity", HUGE_VAL}};
  for (const char* key : {"nan", "infinity"}) {
    JsonReport report("file");
    JsonReader reader(json, report);
    double value = 1;
    reader.Double(key, &value);
    EXPECT_FALSE(report.status().ok());
    EXPECT_EQ(value, 1);
  }
}

TEST(JsonReader, RefusesWrongTypesOfOtherKinds) {
  bool flag = false;
  std::string text;
  std::vector<std::string> strings;
  double pair[2] = {};
  int choice = 0;
  int64_t bytes = 0;
  EXPECT_THAT(
      MessageOf(R"({"k": 1})", [&](JsonReader& r) { r.Bool("k", &flag); }),
      HasSubstr("expected true or false, found 1"));
  EXPECT_THAT(
      MessageOf(R"({"k": {}})", [&](JsonReader& r) { r.String("k", &text); }),
      HasSubstr("expected a string, found an object"));
  EXPECT_THAT(MessageOf(R"({"k": ["a", 1]})",
                        [&](JsonReader& r) { r.Strings("k", &strings); }),
              HasSubstr("expected a list of strings, found 1 in it"));
  EXPECT_THAT(MessageOf(R"({"k": "a"})",
                        [&](JsonReader& r) { r.Strings("k", &strings); }),
              HasSubstr("expected a list of strings, found the string \"a\""));
  for (const char* bad :
       {R"({"k": [1]})", R"({"k": [1, 2, 3]})", R"({"k": [1, "2"]})",
        R"({"k": 1})", R"({"k": [1, -1]})"}) {
    EXPECT_THAT(MessageOf(bad,
                          [&](JsonReader& r) {
                            r.Doubles("k", absl::MakeSpan(pair), {.min = 0});
                          }),
                HasSubstr("expected a list of 2"));
  }
  EXPECT_THAT(MessageOf(R"({"k": "c"})",
                        [&](JsonReader& r) {
                          r.Choice("k", {"a", "b"}, &choice);
                        }),
              HasSubstr("expected one of \"a\", \"b\", found the string"));
  for (const char* bad :
       {R"({"k": -1})", R"({"k": "-1"})", R"({"k": "2 foo"})", R"({"k": 1.5})",
        R"({"k": "unlimited"})", R"({"k": 1e30})", R"({"k": true})"}) {
    EXPECT_THAT(MessageOf(bad, [&](JsonReader& r) { r.Bytes("k", &bytes); }),
                HasSubstr("expected a size in bytes"));
  }
  const auto read_objects = [&](JsonReader& r) {
    r.Objects("k", [&](JsonReader& each) {
      each.Bool("a", &flag);
      each.RefuseUnknownKeys();
    });
  };
  EXPECT_THAT(MessageOf(R"({"k": {}})", read_objects),
              HasSubstr("k: expected a list of objects, found an object"));
  EXPECT_EQ(
      MessageOf(R"({"k": [{"a": 1}, 2, {"a": true}, {"b": 3}]})", read_objects),
      "file: k[0].a: expected true or false, found 1\n"
      "file: k[1]: expected an object {...}, found 2\n"
      "file: k[3].b: unknown key; the known ones in k[3] are a");
  EXPECT_THAT(MessageOf(R"({"k": 1})", [&](JsonReader& r) { r.Object("k"); }),
              HasSubstr("k: expected an object {...}, found 1"));
  EXPECT_THAT(MessageOf("[]", [&](JsonReader&) {}),
              HasSubstr("file: expected an object {...}, found a list of 0"));
  EXPECT_EQ(MessageOf("{}", [&](JsonReader& r) { r.Require("k"); }),
            "file: k: is required");
}

TEST(JsonReader, ReportsAllThatIsWrong) {
  int64_t number = 0;
  bool flag = false;
  EXPECT_EQ(MessageOf(R"({"a": "x", "c": {"d": 1, "e": 2}})",
                      [&](JsonReader& r) {
                        r.Int("a", &number);
                        r.Require("b");
                        JsonReader c = r.Object("c");
                        c.Bool("d", &flag);
                        EXPECT_TRUE(r.Failed("a"));
                        EXPECT_TRUE(c.Failed("d"));
                        EXPECT_FALSE(r.Failed("c"));
                        c.RefuseUnknownKeys();
                        r.RefuseUnknownKeys();
                      }),
            "file: a: expected an integer, found the string \"x\"\n"
            "file: b: is required\n"
            "file: c.d: expected true or false, found 1\n"
            "file: c.e: unknown key; the known ones in c are d");
  // Nothing is expected of what stands in no object.
  EXPECT_EQ(MessageOf(R"({"c": 1})",
                      [&](JsonReader& r) { r.Object("c").Require("d"); }),
            "file: c: expected an object {...}, found 1");
}

}  // namespace
}  // namespace castor
