// A data file's tokens against those of the whole of it at once.
#include "text/data/tokenize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "text/data/encodings_for_test.h"
#include "text/data/text_cut.h"
#include "text/data/token_cache.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Tokens = std::vector<int32_t>;

class TokenizeTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) {
    return directory_.path() + "/" + name;
  }

  absl::StatusOr<std::shared_ptr<const TokenCache>> Cache(
      const std::string& text, TokenizeOptions options) {
    WriteFile(Path("source"), text);
    auto reader = SourceReader::Open(Path("source"), CutOf(options.kind));
    if (!reader.ok()) return reader.status();
    auto writer = TokenCacheWriter::Create(
        Path("cache"), CacheKindOf(options.kind), 5,
        options.encoding == nullptr ? 0 : options.encoding->vocabulary);
    if (options.vocabulary == 0) options.vocabulary = 1 << 20;
    const absl::Status status = Tokenize(options, reader->get(), writer->get());
    if (!status.ok()) return status;
    const absl::Status committed =
        (*writer)->Commit((*reader)->stamp(), (*reader)->checksum());
    EXPECT_TRUE(committed.ok()) << committed;
    return TokenCache::Open(Path("cache"));
  }

  Tokens TokensOfRun(const std::string& text, const TokenizeOptions& options) {
    const auto cache = Cache(text, options);
    EXPECT_TRUE(cache.ok()) << cache.status();
    if (!cache.ok()) return {};
    EXPECT_TRUE((*cache)->Verify(1 << 30).ok());
    Tokens tokens((*cache)->footer().tokens);
    EXPECT_TRUE(
        (*cache)
            ->ReadTokens(0, static_cast<int64_t>(tokens.size()), tokens.data())
            .ok());
    return tokens;
  }

  std::string Error(const std::string& text, const TokenizeOptions& options) {
    const auto cache = Cache(text, options);
    EXPECT_EQ(cache.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(cache.status().message());
  }

 private:
  TemporaryDirectory directory_;
};

// Words of ASCII and beyond, with white space of all kinds between them.
std::string RandomText(int64_t bytes, std::mt19937_64& random) {
  const std::vector<std::string> between = {" ",  " ",    " ",    " ",   "\n",
                                            "  ", "\r\n", "\n\n", "\t ", " \n"};
  const std::vector<std::string> words = {"the", "a",    "1",    "42.",
                                          "é",   "\"no", "漢字", "x😀y"};
  std::string text;
  while (static_cast<int64_t>(text.size()) < bytes) {
    text += words[random() % words.size()];
    if (random() % 3 == 0) text += static_cast<char>('a' + random() % 26);
    text += between[random() % between.size()];
  }
  return text;
}

TEST_F(TokenizeTest, TextHasTheTokensOfTheWhole) {
  constexpr uint64_t kSeed = 20;
  std::mt19937_64 random(kSeed);
  for (auto* encode : {EncodeLikeGpt2, EncodeLikeLlama2}) {
    const TextEncoding encoding = EncodingForTest(encode);
    EXPECT_EQ(encoding.keeps_space, encode == EncodeLikeGpt2);
    for (const int64_t bytes :
         {int64_t{1}, int64_t{500}, kMinPartBytes + 1, 5 * kMinPartBytes}) {
      const std::string text = RandomText(bytes, random);
      Tokens whole = {1};
      ASSERT_TRUE(encode(text, &whole).ok());
      whole.push_back(2);
      for (const int threads : {1, 3}) {
        EXPECT_TRUE(whole == TokensOfRun(text, {.encoding = &encoding,
                                                .threads = threads,
                                                .progress = nullptr}))
            << bytes << " bytes, " << threads << " threads";
      }
    }
  }
}

TEST_F(TokenizeTest, LinesOfTextAreDocumentsInTheirOrder) {
  std::mt19937_64 random(3);
  const TextEncoding encoding = EncodingForTest(EncodeLikeGpt2);
  std::string lines;
  Tokens expected;
  for (int i = 0; i < 1000; ++i) {
    // One is larger than a piece, some are empty.
    const int64_t bytes =
        i == 700 ? 3 * kMinPartBytes : static_cast<int64_t>(random() % 400);
    const std::string text = bytes < 20 ? "" : RandomText(bytes, random);
    const nlohmann::json line = {{"id", i}, {"text", text}};
    absl::StrAppend(&lines, line.dump(-1, ' ', i % 2 == 0),
                    i % 5 == 0 ? "\r\n" : "\n", i % 7 == 0 ? " \n\n" : "");
    expected.push_back(1);
    ASSERT_TRUE(encoding.encode(text, &expected).ok());
    expected.insert(expected.end(), {2, 3});
  }
  lines.pop_back();  // the last line has no end
  for (const int threads : {1, 4}) {
    EXPECT_TRUE(expected == TokensOfRun(lines, {.kind = SourceKind::kTextLines,
                                                .encoding = &encoding,
                                                .threads = threads,
                                                .progress = nullptr}));
  }
}

TEST_F(TokenizeTest, ADocumentEndsOnce) {
  TextEncoding encoding = EncodingForTest(EncodeLikeGpt2);
  encoding.after = {3};
  const int32_t a = TokenOfWord("a");
  const TokenizeOptions options = {.kind = SourceKind::kTextLines,
                                   .encoding = &encoding,
                                   .progress = nullptr};
  const std::string lines = "{\"text\": \"a\"}\n{\"text\": \"\"}";
  EXPECT_THAT(TokensOfRun(lines, options), ElementsAre(1, a, 3, 1, 3));
  encoding.after.clear();
  encoding.before.clear();
  EXPECT_THAT(TokensOfRun(lines, options), ElementsAre(a, 3, 3));
  encoding.end_of_document = -1;
  EXPECT_THAT(TokensOfRun(lines, options), ElementsAre(a));
}

TEST_F(TokenizeTest, LinesOfTokensAreWhatTheyWere) {
  std::mt19937_64 random(4);
  std::vector<std::pair<Tokens, Tokens>> expected;
  std::string lines;
  for (int i = 0; i < 3000; ++i) {
    const size_t size = i == 1500 ? 20'000 : 1 + random() % 40;
    Tokens ids(size), labels(size);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 1000);
    for (int32_t& label : labels) {
      label = random() % 2 == 0 ? -100 : static_cast<int32_t>(random() % 1000);
    }
    nlohmann::json line = {{"input_ids", ids}};
    if (i % 3 == 0) {
      line["labels"] = labels;
    } else {
      labels = ids;
    }
    absl::StrAppend(&lines, line.dump(), "\n");
    expected.emplace_back(std::move(ids), std::move(labels));
  }
  for (const int threads : {1, 3}) {
    const auto cache = Cache(lines, {.kind = SourceKind::kTokenLines,
                                     .threads = threads,
                                     .progress = nullptr});
    ASSERT_TRUE(cache.ok()) << cache.status();
    EXPECT_EQ((*cache)->footer().longest, 20'000);
    EXPECT_EQ((*cache)->CountTokens(0, (*cache)->footer().lines, 40)->cut, 1);
    ASSERT_EQ((*cache)->footer().lines, 3000);
    Tokens ids(20'000), labels(20'000);
    for (int i = 0; i < 3000; ++i) {
      const auto count =
          (*cache)->ReadLine(i, 20'000, ids.data(), labels.data());
      ASSERT_TRUE(count.ok()) << count.status();
      ASSERT_EQ(expected[i].first, Tokens(ids.begin(), ids.begin() + *count));
      ASSERT_EQ(expected[i].second,
                Tokens(labels.begin(), labels.begin() + *count));
    }
    const auto count = (*cache)->ReadLine(1500, 3, ids.data(), labels.data());
    ASSERT_TRUE(count.ok());
    EXPECT_EQ(*count, 3);
    EXPECT_EQ(ids[2], expected[1500].first[2]);
  }
}

TEST_F(TokenizeTest, NamesFileLineAndKeyOfWhatIsWrong) {
  const TextEncoding encoding = EncodingForTest(EncodeLikeGpt2);
  const TokenizeOptions text = {.encoding = &encoding, .progress = nullptr};
  EXPECT_THAT(Error("one\ntwo\n\xff", text),
              HasSubstr("source\", line 3: the byte 0xff is no UTF-8"));
  // Past the first piece, too.
  std::mt19937_64 random(3);
  std::string long_text = RandomText(2 * kMinPartBytes, random);
  const auto lines = std::count(long_text.begin(), long_text.end(), '\n');
  EXPECT_THAT(Error(long_text + "\xc3 ", text),
              HasSubstr(absl::StrCat("line ", lines + 1, ": the byte 0xc3")));

  const TokenizeOptions texts = {.kind = SourceKind::kTextLines,
                                 .encoding = &encoding,
                                 .threads = 3,
                                 .progress = nullptr};
  EXPECT_THAT(Error("{\"text\": \"a\"}\n\n{\"text\": 3}\n{", texts),
              HasSubstr("source\", line 3: text: expected a string"));
  EXPECT_THAT(Error("{\"text\": \"a\"}\n{\"input_ids\": [1]}", texts),
              HasSubstr("line 2: input_ids: is there"));
  EXPECT_THAT(Error(" \n\n", texts), HasSubstr("blank lines only"));

  TokenizeOptions ids = {.kind = SourceKind::kTokenLines, .progress = nullptr};
  EXPECT_THAT(Error("{\"input_ids\": [1]}\n{\"text\": \"a\"}", ids),
              HasSubstr("line 2: input_ids: is missing"));
  ids.vocabulary = 10;
  EXPECT_THAT(Error("{\"input_ids\": [9]}\n\n{\"input_ids\": [3, 10]}", ids),
              AllOf(HasSubstr("source\", line 3: input_ids: has token 10"),
                    HasSubstr("model.vocab_size is 10")));
  EXPECT_THAT(Error("{\"input_ids\": [9], \"labels\": [11]}", ids),
              HasSubstr("line 1: labels: has token 11"));
}

TEST_F(TokenizeTest, RefusesATokenizerOfAnotherVocabulary) {
  const TextEncoding encoding = EncodingForTest(EncodeLikeGpt2);
  EXPECT_THAT(
      Error("a", {.encoding = &encoding, .vocabulary = 2, .progress = nullptr}),
      AllOf(HasSubstr("tokenizer \"test\" gives token"), HasSubstr("source\""),
            HasSubstr("model.vocab_size is 2: tokenizer and model are "
                      "not of one vocabulary")));
}

TEST_F(TokenizeTest, SeesWhichRecordsAFileHas) {
  const auto find = [&](const std::string& text,
                        std::optional<RecordFormat> given = std::nullopt,
                        const RecordKeys& keys = RecordKeys()) {
    WriteFile(Path("lines"), text);
    return FindRecords(Path("lines"), keys, given);
  };
  const auto error = [&](const std::string& text) {
    return std::string(find(text).status().message());
  };
  EXPECT_EQ(find("\n \n{\"text\": \"a\"}\n{")->format, RecordFormat::kText);
  EXPECT_EQ(find("{\"text\": \"a\", \"input_ids\": [1]}")->format,
            RecordFormat::kTokens);
  EXPECT_EQ(find(R"({"messages": []})")->format, RecordFormat::kMessages);
  EXPECT_EQ(find(R"({"conversations": [{"from": "text"}]})")->format,
            RecordFormat::kConversations);
  EXPECT_EQ(find(R"({"output": 3, "instruction": 4})")->format,
            RecordFormat::kInstruction);
  const auto prompt = find(R"({"prompt": {"text": 1}, "id": 3, "tools": 0})");
  EXPECT_EQ(prompt->format, RecordFormat::kPrompt);
  EXPECT_THAT(prompt->unused, ElementsAre("id"));
  // A key by another name, and one that has another meaning here.
  const RecordKeys keys({{"text", "content"}, {"prompt", "text"}});
  EXPECT_EQ(find(R"({"content": "a"})", std::nullopt, keys)->format,
            RecordFormat::kText);
  EXPECT_EQ(find(R"({"text": "a"})", std::nullopt, keys)->format,
            RecordFormat::kPrompt);
  // No format is led by the question of a span, whatever its context is called.
  const RecordKeys of_spans({{"context", "text"}, {"question", "prompt"}});
  WriteFile(Path("lines"), R"({"prompt": "a", "text": "b", "answers": {}})");
  const auto span = FindRecords(Path("lines"), of_spans, std::nullopt, false,
                                {"question", "context", "answers"});
  ASSERT_TRUE(span.ok()) << span.status();
  EXPECT_EQ(span->format, RecordFormat::kText);
  EXPECT_THAT(span->unused, testing::IsEmpty());
  const std::string both =
      R"({"instruction": "a", "text": "b", "output": "c"})";
  EXPECT_THAT(error(both),
              HasSubstr("line 1: has \"text\" and \"instruction\": say by "
                        "data.format which of them is learned from"));
  EXPECT_EQ(find(both, RecordFormat::kInstruction)->format,
            RecordFormat::kInstruction);
  EXPECT_THAT(error(R"({"mesages": []})"),
              HasSubstr("unknown key \"mesages\": is \"messages\" meant?"));
  EXPECT_THAT(error("\n\nx\n"), HasSubstr("lines\", line 3: no valid JSON"));
  EXPECT_THAT(error("\n\n"), HasSubstr("blank lines only"));
  EXPECT_THAT(error(""), HasSubstr("is empty"));
}

}  // namespace
}  // namespace castor
