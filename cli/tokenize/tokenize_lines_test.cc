#include "cli/tokenize/tokenize_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>

#include "text/tokenizer/tokenizer.h"

namespace castor::cli {
namespace {

using ::testing::MatchesRegex;
using ::testing::StartsWith;

class TokenizeLinesTest : public ::testing::Test {
 protected:
  TokenizeLinesTest() {
    auto tokenizer =
        text::Tokenizer::Load("tests/fixtures/tokenizers/byte_level");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  absl::Status Encode(const std::string& in, bool add_special_tokens,
                      std::string* out) const {
    std::istringstream stream(in);
    return EncodeLines(tokenizer_.get(), add_special_tokens, stream,
                       [out](absl::string_view line) {
                         out->append(line.data(), line.size());
                         return true;
                       });
  }
  absl::Status Decode(const std::string& in, std::string* out) const {
    std::istringstream stream(in);
    return DecodeLines(tokenizer_.get(), stream, [out](absl::string_view line) {
      out->append(line.data(), line.size());
      return true;
    });
  }

  std::unique_ptr<const text::Tokenizer> tokenizer_;
};

TEST_F(TokenizeLinesTest, LinesComeBackAsTheyWere) {
  const std::string text = "In the beginning\n\n \xc3\xa9\xe2\x82\xac 1\t2\r\n";
  std::string ids, again;
  ASSERT_TRUE(Encode(text, false, &ids).ok());
  EXPECT_THAT(ids, MatchesRegex("\\[[0-9,]+\\]\n\\[\\]\n\\[[0-9,]+\\]\n"));
  ASSERT_TRUE(Decode(ids, &again).ok());
  EXPECT_EQ(again, text);
}

TEST_F(TokenizeLinesTest, TakesBytesWithoutATokenizer) {
  tokenizer_ = nullptr;
  std::string ids, again;
  ASSERT_TRUE(Encode("a\xc3\xa9\xff\n\n", true, &ids).ok());
  EXPECT_EQ(ids, "[97,195,169,255]\n[]\n");
  ASSERT_TRUE(Decode(ids, &again).ok());
  EXPECT_EQ(again, "a\xc3\xa9\xff\n\n");
  EXPECT_FALSE(Decode("[256]", &again).ok());
}

TEST_F(TokenizeLinesTest, AddsSpecialTokensIfAsked) {
  std::string without, with;
  ASSERT_TRUE(Encode("the", false, &without).ok());
  ASSERT_TRUE(Encode("the", true, &with).ok());
  EXPECT_NE(with, without);
  ASSERT_FALSE(tokenizer_->prefix().empty());
  EXPECT_THAT(with,
              StartsWith("[" + std::to_string(tokenizer_->prefix()[0]) + ","));
}

TEST_F(TokenizeLinesTest, NamesTheBadLine) {
  for (const char* bad : {"{}", "[1.5]", "[-1]", "[999999]", "[[1]]", "[1"}) {
    std::string out;
    const absl::Status status = Decode(std::string("[1]\n") + bad, &out);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()),
                StartsWith("standard input, line 2: "))
        << bad;
    EXPECT_FALSE(out.empty()) << bad;
  }
}

TEST_F(TokenizeLinesTest, StopsWhereNothingCanBeWritten) {
  std::istringstream in("a\nb\nc\n");
  int lines = 0;
  EXPECT_TRUE(EncodeLines(tokenizer_.get(), false, in, [&](absl::string_view) {
                return ++lines < 2;
              }).ok());
  EXPECT_EQ(lines, 2);
}

}  // namespace
}  // namespace castor::cli
