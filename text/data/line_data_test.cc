// What lines of tokens become, against what transformers' causal models see of
// them (tools/fixtures/make_label_fixture.py).
#include "text/data/line_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "text/data/cached_tokens.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Tokens = std::vector<int32_t>;

class LineDataTest : public testing::Test {
 protected:
  DataFile File(const std::string& lines) {
    const std::string path = directory_.path() + "/lines.jsonl";
    WriteFile(path, lines);
    const auto cache =
        OpenCachedTokens({.path = path,
                          .tokenize = {.kind = SourceKind::kTokenLines,
                                       .vocabulary = 1000,
                                       .progress = nullptr},
                          .directory = "",
                          .say = [](absl::string_view) {}});
    EXPECT_TRUE(cache.ok()) << cache.status();
    return LineDataFile(*cache, path);
  }
  // Lines of one token each: 0, 1, 2 and so on.
  DataFile Ramp(int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) {
      absl::StrAppend(&text, "{\"input_ids\": [", i, "]}\n");
    }
    return File(text);
  }
  static Tokens First(const DataSet& set, int64_t position, int64_t batch,
                      int64_t length) {
    Tokens tokens(batch * length), targets(batch * length);
    EXPECT_TRUE(
        set.FillBatch(position, batch, tokens.data(), targets.data()).ok());
    Tokens first;
    for (int64_t b = 0; b < batch; ++b) first.push_back(tokens[b * length]);
    return first;
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(LineDataTest, IsWhatTransformersSees) {
  const auto fixture = nlohmann::json::parse(
      ReadFile("tests/fixtures/labels/transformers.json"));
  const int64_t length = fixture["sequence_length"];
  std::string text;
  for (const auto& line : fixture["lines"]) {
    absl::StrAppend(&text, line.dump(), "\n");
  }
  const DataFile file = File(text);
  ASSERT_EQ(file.size, static_cast<int64_t>(fixture["lines"].size()));
  ASSERT_GE(file.size, 50);
  const auto set = file.part({.end = file.size, .sequence_length = length});
  ASSERT_TRUE(set.ok()) << set.status();
  Tokens tokens(file.size * length), targets(file.size * length);
  ASSERT_TRUE(
      (*set)->FillBatch(0, file.size, tokens.data(), targets.data()).ok());
  for (int64_t i = 0; i < file.size; ++i) {
    const auto row = [&](const Tokens& of) {
      return Tokens(of.begin() + i * length, of.begin() + (i + 1) * length);
    };
    EXPECT_EQ(row(tokens), fixture["tokens"][i].get<Tokens>())
        << fixture["lines"][i];
    EXPECT_EQ(row(targets), fixture["targets"][i].get<Tokens>())
        << fixture["lines"][i];
  }
}

TEST_F(LineDataTest, TakesLinesInOrderAndWrapsAround) {
  const DataFile file = Ramp(5);
  const auto set = file.part({.begin = 1, .end = 4, .sequence_length = 2});
  ASSERT_TRUE(set.ok());
  EXPECT_EQ((*set)->num_samples(), 3);
  EXPECT_THAT(First(**set, 0, 5, 2), ElementsAre(1, 2, 3, 1, 2));
}

TEST_F(LineDataTest, ShufflesEachEpochCompletely) {
  const DataFile file = Ramp(50);
  const auto set =
      file.part({.end = 50, .sequence_length = 1, .shuffle = true, .seed = 3});
  ASSERT_TRUE(set.ok());
  const Tokens one = First(**set, 0, 50, 1), two = First(**set, 50, 50, 1);
  EXPECT_NE(one, two);
  EXPECT_THAT(one, testing::UnorderedElementsAreArray(two));
  EXPECT_NE(one,
            First(**file.part({.end = 50, .sequence_length = 1}), 0, 50, 1));
}

TEST_F(LineDataTest, TellsItsLinesApart) {
  const auto check = [&](const std::string& text, int64_t begin, int64_t end) {
    const auto set =
        File(text).part({.begin = begin, .end = end, .sequence_length = 4});
    EXPECT_TRUE(set.ok()) << set.status();
    return *(*set)->Check(1, 1);
  };
  constexpr char kLines[] = "{\"input_ids\": [1, 2]}\n{\"input_ids\": [3]}\n";
  const std::string is = check(kLines, 0, 2);
  EXPECT_THAT(is, testing::MatchesRegex("2 lines, checksum [0-9a-f]+"));
  // How a line is written does not matter.
  EXPECT_EQ(is, check("\n{\"input_ids\":[1,2],\"labels\":[1,2]}\n"
                      "{\"text\": \"a\", \"input_ids\": [3, 9], "
                      "\"attention_mask\": [1, 0]}",
                      0, 2));
  EXPECT_NE(is, check("{\"input_ids\": [1, 3]}\n{\"input_ids\": [3]}", 0, 2));
  EXPECT_NE(is, check("{\"input_ids\": [1]}\n{\"input_ids\": [2, 3]}", 0, 2));
  EXPECT_NE(is, check("{\"input_ids\": [1, 2], \"labels\": [1, -100]}\n"
                      "{\"input_ids\": [3]}",
                      0, 2));
  EXPECT_THAT(check(kLines, 1, 2), HasSubstr("1 lines (1 to 2 of 2), "));
}

TEST_F(LineDataTest, NeedsALine) {
  const DataFile file = Ramp(3);
  const auto none = file.part({.begin = 3, .end = 3, .sequence_length = 4});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("data.validation_fraction"));
}

}  // namespace
}  // namespace castor
