// Lists and tables as JSON lines; tables against Python's csv module
// (tools/fixtures/make_example_fixture.py).
#include "text/data/record_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/test_files.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// Gives a text by parts of at most `most` bytes.
class TextBytes : public SourceBytes {
 public:
  TextBytes(std::string text, size_t most)
      : text_(std::move(text)), most_(static_cast<int64_t>(most)) {}

  absl::StatusOr<int64_t> Read(char* out, int64_t most) override {
    const int64_t count =
        std::min({most, most_, static_cast<int64_t>(text_.size()) - given_});
    std::copy_n(text_.data() + given_, count, out);
    given_ += count;
    return count;
  }

 private:
  const std::string text_;
  const int64_t most_;
  int64_t given_ = 0;
};

using Maker = std::unique_ptr<SourceBytes> (*)(std::unique_ptr<SourceBytes>);

absl::StatusOr<std::string> Lines(Maker make, const std::string& text,
                                  size_t most = 1 << 20) {
  const auto lines = make(std::make_unique<TextBytes>(text, most));
  std::string all;
  char part[37];
  for (;;) {
    const auto n = lines->Read(part, sizeof(part));
    if (!n.ok()) return n.status();
    if (*n == 0) return all;
    all.append(part, static_cast<size_t>(*n));
  }
}

std::string Error(Maker make, const std::string& text) {
  const auto lines = Lines(make, text);
  EXPECT_EQ(lines.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(lines.status().message());
}

TEST(LinesOfTable, AreTheRowsThatPythonReads) {
  const Json cases = Json::parse(ReadFile("tests/fixtures/examples/csv.json"));
  int refused = 0;
  for (const Json& each : cases) {
    const std::string text = each["text"];
    for (const size_t most : {size_t{1}, size_t{5}, size_t{1000}}) {
      const auto lines = Lines(LinesOfTable, text, most);
      if (each["rows"].is_null()) {
        refused += !lines.ok();
        EXPECT_FALSE(lines.ok()) << text;
        continue;
      }
      ASSERT_TRUE(lines.ok()) << lines.status() << "\n" << text;
      Json rows = Json::array();
      for (const std::string& line :
           std::vector<std::string>(absl::StrSplit(*lines, '\n'))) {
        if (!line.empty()) rows.push_back(Json::parse(line));
      }
      EXPECT_EQ(rows, each["rows"]) << text;
    }
  }
  EXPECT_GT(refused, 30);
}

TEST(LinesOfTable, SaysWhatIsWrong) {
  EXPECT_EQ(Error(LinesOfTable, "a,b\n1,2\n3\n"),
            "has 1 field in record 2, and the first row names 2");
  EXPECT_EQ(Error(LinesOfTable, "a,b\n1,2,3\n"),
            "has more fields in record 1 than the 2 that the first row names");
  EXPECT_EQ(Error(LinesOfTable, "a,a\n1,2\n"),
            "has two columns with the name \"a\"");
  EXPECT_EQ(Error(LinesOfTable, "a,b\n1,\"2\n"),
            "has in record 1 a quotation mark that is never closed");
  EXPECT_EQ(Error(LinesOfTable, "a,b\n"),
            "has no row after the one that names its columns");
  EXPECT_EQ(Error(LinesOfTable, "\n\n"), "has no row that names its columns");
  EXPECT_THAT(Error(LinesOfTable, std::string(2 << 20, 'x')),
              HasSubstr("more than 1 MiB"));
}

TEST(LinesOfList, AreItsRecords) {
  const std::string text =
      "\xef\xbb\xbf [ {\"a\": \"x,]}\\\"\",\n \"b\": [1, [2]]} ,\n"
      "\t{\"c\":{}},3 ,true, \"s\" , [1,2]\n]\n";
  for (const size_t most : {size_t{1}, size_t{4}, size_t{1000}}) {
    const auto lines = Lines(LinesOfList, text, most);
    ASSERT_TRUE(lines.ok()) << lines.status();
    EXPECT_THAT(std::vector<std::string>(absl::StrSplit(*lines, '\n')),
                ElementsAre("{\"a\": \"x,]}\\\"\",  \"b\": [1, [2]]}",
                            "{\"c\":{}}", "3", "true", "\"s\"", "[1,2]", ""));
  }
  // The records' readers check whether a record is valid.
  EXPECT_EQ(*Lines(LinesOfList, "[{]]"), "{]\n");
  const std::string lines = "\n{\"a\":\n1}\n{}";
  for (const size_t most : {size_t{1}, size_t{1000}}) {
    EXPECT_EQ(*Lines(LinesOfList, lines, most), lines.substr(1));
  }
}

TEST(LinesOfList, RefuseWhatIsNoList) {
  EXPECT_EQ(Error(LinesOfList, "\"a\""),
            "is no list of records: it begins with \"\\\"\", not with \"[\"");
  EXPECT_EQ(Error(LinesOfList, " \n"), "has no records");
  EXPECT_EQ(Error(LinesOfList, "[ ]"), "has no records");
  EXPECT_EQ(Error(LinesOfList, "[{},{}"),
            "ends within its list, after record 2");
  EXPECT_EQ(Error(LinesOfList, "[{},{\"a\": \"]"),
            "ends within its list, in record 2");
  EXPECT_EQ(Error(LinesOfList, "[{},]"), "has \"]\" in the place of record 2");
  EXPECT_EQ(Error(LinesOfList, "[,{}]"), "has \",\" in the place of record 1");
  EXPECT_EQ(Error(LinesOfList, "[{} {}]"), "has \"{\" after record 1");
  EXPECT_EQ(Error(LinesOfList, "[{}] x"),
            "has \"x\" after the list, which ends with record 1");
  EXPECT_EQ(Error(LinesOfList, "[{\"a\": \"b\nc\"}]"),
            "has in record 1 a string with a line end in it, which JSON writes "
            "as \\n");
  // Depth costs nothing here.
  const std::string deep(1 << 20, '[');
  EXPECT_EQ(Error(LinesOfList, deep), "ends within its list, in record 1");
}

}  // namespace
}  // namespace castor
