// Compares the samples that lines of tokens become with those that
// transformers' causal models see (tools/fixtures/make_label_fixture.py).
#include "text/data/line_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "base/units.h"
#include "text/data/cached_tokens.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Tokens = std::vector<int32_t>;

class LineDataTest : public testing::Test {
 protected:
  std::string Path() const { return directory_.path() + "/lines.jsonl"; }
  std::shared_ptr<const TokenCache> Cache(const std::string& lines) {
    const std::string path = Path();
    WriteFile(path, lines);
    const auto cache =
        OpenCachedTokens({.path = path,
                          .tokenize = {.kind = SourceKind::kTokenLines,
                                       .vocabulary = 1000,
                                       .progress = nullptr},
                          .directory = "",
                          .say = [](absl::string_view) {}});
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *cache;
  }
  DataFile File(const std::string& lines) {
    return LineDataFile(Cache(lines), Path());
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

// Returns how many samples have no target in the batches of FillBatch.
int64_t WithoutTarget(const DataSet& set, int64_t length) {
  int64_t without = 0;
  Tokens tokens(length), targets(length);
  for (int64_t i = 0; i < set.num_samples(); ++i) {
    EXPECT_TRUE(set.FillBatch(i, 1, tokens.data(), targets.data()).ok());
    without += std::count(targets.begin(), targets.end(), kNoTarget) == length;
  }
  return without;
}

TEST_F(LineDataTest, CountsSamplesWithoutATarget) {
  std::mt19937 random(1);
  const auto draw = [&](int64_t below) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(below));
  };
  // Three groups of lines. The longest answers come after 600 tokens, so that
  // they are looked for in more than one piece.
  std::string text;
  int64_t never = 0;
  for (int i = 0; i < 2500; ++i) {
    const int64_t tokens = 1 + draw(i % 50 == 0 ? 700 : 12);
    nlohmann::json line = {{"input_ids", Tokens(tokens, 5)}};
    const int64_t asked = draw(tokens + 2);
    if (i % 3 > 0) {
      Tokens labels(tokens, 6);
      std::fill_n(labels.begin(), std::min(asked, tokens), kNoTarget);
      line["labels"] = labels;
    }
    never += tokens == 1 || (i % 3 > 0 && asked >= tokens);
    absl::StrAppend(&text, line.dump(), "\n");
  }
  const DataFile file = File(text);
  const auto count = [&](int64_t begin, int64_t end, int64_t length) {
    const auto set =
        file.part({.begin = begin, .end = end, .sequence_length = length});
    EXPECT_TRUE(set.ok()) << set.status();
    const auto counted = (*set)->CountLabels();
    EXPECT_TRUE(counted.ok()) << counted.status();
    EXPECT_EQ(counted->samples, end - begin);
    EXPECT_EQ(counted->unlabelled, WithoutTarget(**set, length)) << length;
    return *counted;
  };
  for (const int64_t length : {1, 2, 5, 300}) {
    const LabelCount all = count(0, file.size, length);
    EXPECT_EQ(all.never, never);
    EXPECT_GT(all.unlabelled, never);
    ASSERT_GT(all.reach, length);
    EXPECT_EQ(count(0, file.size, all.reach).unlabelled, never);
    EXPECT_GT(count(0, file.size, all.reach - 1).unlabelled, never);
  }
  count(1000, 1100, 4);
  count(2499, 2500, 4);
}

TEST_F(LineDataTest, CountsSomeGroupsOfAVeryLargeFile) {
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    absl::StrAppend(&text, "{\"input_ids\": [", i < 2048 ? "1" : "1, 2",
                    "]}\n");
  }
  const auto cache = Cache(text);
  const int64_t body = cache->footer().body_bytes;
  const auto all = cache->CountLabels(0, 5000, 2, body);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->samples, 5000);
  EXPECT_EQ(all->unlabelled, 2048);
  // The first, the third and the fifth group of 1024.
  const auto some = cache->CountLabels(0, 5000, 2, CeilDiv(body, 2));
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->samples, 1024 + 1024 + 5000 - 4096);
  EXPECT_EQ(some->unlabelled, 1024);
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
