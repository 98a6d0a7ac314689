// It was reported that small tokenizer files took all memory, or did not end:
// their texts grow without bound, or take far longer than their size. Such
// files give the right ids, or one line with the part and the bound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::HasSubstr;

class HostileTokenizersTest : public CliTest {
 protected:
  // Makes `changes` to a tokenizer whose model knows "a", "b" and nothing else.
  void WriteTokenizer(const Json& changes) const {
    Json json = Json::parse(R"({"version": "1.0", "added_tokens": [],
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
    json.merge_patch(changes);
    WriteFile(Path("tokenizer.json"), json.dump());
  }
  // Tokenizes `text` as one line, under a bound on memory that is far above
  // what any of it needs.
  ProcessResult Tokenize(const std::string& text,
                         const std::vector<std::string>& more = {}) const {
    WriteFile(Path("text.txt"), text + "\n");
    std::vector<std::string> args = {"tokenize", "--tokenizer", "."};
    args.insert(args.end(), more.begin(), more.end());
    return RunCastor(args, directory(), /*ranks=*/0,
                     "ulimit -v 4000000; \"$@\" < text.txt");
  }
  std::vector<int> Ids(const std::string& text) const {
    const ProcessResult result = Tokenize(text);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (result.exit_code != 0) return {};
    return Json::parse(result.out).get<std::vector<int>>();
  }
  static void ExpectRefused(const ProcessResult& result,
                            const std::string& place,
                            const std::string& bound) {
    ExpectUserError(result);
    EXPECT_THAT(result.err, HasSubstr("tokenizer.json: " + place + ": "));
    EXPECT_THAT(result.err, HasSubstr(bound));
  }
  static Json Repeated(const Json& part, int count) {
    return Json(std::vector<Json>(count, part));
  }
};

std::string Repeat(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

constexpr char kTooLarge[] = "becomes larger than 65600, the most";
constexpr char kTooManySteps[] = "steps, the most that are allowed";

// It was reported that 2 kB of tokenizer.json, twelve replacements of a letter
// by ten of it, took all of a machine's memory for the text "a". One byte may
// become 65,536 + 64, which the fifth replacement goes beyond.
TEST_F(HostileTokenizersTest, ReplacementsThatGrowAreRefusedByName) {
  const Json ten = {{"type", "Replace"},
                    {"pattern", {{"String", "a"}}},
                    {"content", "aaaaaaaaaa"}};
  WriteTokenizer(
      {{"normalizer",
        {{"type", "Sequence"}, {"normalizers", Repeated(ten, 12)}}}});
  ExpectRefused(Tokenize("a"), "normalizer.normalizers[4]", kTooLarge);
  // Three of them make a thousand letters, which is no more than is allowed.
  WriteTokenizer({{"normalizer",
                   {{"type", "Sequence"}, {"normalizers", Repeated(ten, 3)}}}});
  EXPECT_EQ(Ids("a"), std::vector<int>(1000, 0));
}

TEST_F(HostileTokenizersTest, WhatIsPutBeforeATextCountsToo) {
  WriteTokenizer({{"normalizer",
                   {{"type", "Prepend"}, {"prepend", Repeat("ab", 100'000)}}}});
  ExpectRefused(Tokenize("a"), "normalizer", kTooLarge);
}

TEST_F(HostileTokenizersTest, PreTokenizersThatGrowAreRefusedByName) {
  // Each part writes a byte that is not ASCII as two.
  const Json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  WriteTokenizer(
      {{"pre_tokenizer",
        {{"type", "Sequence"}, {"pretokenizers", Repeated(bytes, 40)}}}});
  // Two bytes become 4, 8, ... 2^17.
  ExpectRefused(Tokenize("\u00c4"), "pre_tokenizer.pretokenizers[15]",
                "becomes larger than 65664, the most");
}

TEST_F(HostileTokenizersTest, DecodersThatGrowAreRefusedByName) {
  const Json ten = {{"type", "Replace"},
                    {"pattern", {{"String", "a"}}},
                    {"content", "aaaaaaaaaa"}};
  WriteTokenizer(
      {{"decoder", {{"type", "Sequence"}, {"decoders", Repeated(ten, 12)}}}});
  ExpectRefused(Tokenize("[0]", {"--decode"}), "decoder.decoders[4]",
                "becomes larger than 65664, the most");
}

TEST_F(HostileTokenizersTest, TemplatesThatAddManyTokensAreRefused) {
  Json single = Repeated(Json::parse(R"({"SpecialToken": {"id": "x"}})"), 100);
  single.push_back(Json::parse(R"({"Sequence": {"id": "A"}})"));
  WriteTokenizer(
      {{"post_processor",
        {{"type", "TemplateProcessing"},
         {"single", single},
         {"special_tokens",
          {{"x", {{"id", "x"}, {"ids", std::vector<int>(100'000, 0)}}}}}}}});
  ExpectRefused(Tokenize("a"), "post_processor.single",
                "more than 1024 tokens");
}

// It was reported that a WordPiece token of 100,000 letters on a text of as
// many took more than 25 seconds, since it was looked for at each place.
TEST_F(HostileTokenizersTest, WordPieceTakesATimeThatGrowsWithTheText) {
  const std::string letters(100'000, 'a');
  WriteTokenizer({{"model",
                   {{"type", "WordPiece"},
                    {"unk_token", "[UNK]"},
                    {"max_input_chars_per_word", 1'000'000'000},
                    {"vocab",
                     {{"[UNK]", 4},
                      {"a", 2},
                      {"##a", 3},
                      {"b", nullptr},
                      {"##" + letters, 1}}}}}});
  // The text is "a", and then one letter less than the long token has.
  std::vector<int> want(100'000, 3);
  want[0] = 2;
  EXPECT_EQ(Ids(letters), want);
  EXPECT_EQ(Ids(letters + "a"), (std::vector<int>{2, 1}));
}

// It was reported that an added token of 4,000 letters on 2 MB took more than
// 25 seconds.
TEST_F(HostileTokenizersTest, AddedTokensTakeATimeThatGrowsWithTheText) {
  const std::string token = Repeat("ab", 2000);
  Json plain = {{"id", 2}, {"content", token + "b"}};
  Json normalized = {
      {"id", 3}, {"content", token + "aa"}, {"normalized", true}};
  WriteTokenizer({{"added_tokens", Json::array({plain, normalized})}});
  std::vector<int> want(400'000);
  for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<int>(i % 2);
  EXPECT_EQ(Ids(Repeat("ab", 200'000)), want);
  EXPECT_EQ(Ids("b" + token + "b" + token + "aab"),
            (std::vector<int>{1, 2, 3, 1}));
}

// Spaces that a token takes with it are looked at once, however many tokens
// there are among them.
TEST_F(HostileTokenizersTest, TokensThatTakeSpacesAreLinear) {
  WriteTokenizer(Json::parse(R"({"added_tokens": [
      {"id": 2, "content": "\t", "lstrip": true, "rstrip": true}]})"));
  // The first token takes all the others as spaces.
  EXPECT_EQ(Ids(std::string(1'000'000, '\t') + "a"), (std::vector<int>{2, 0}));
}

// Each token is the head of the next here, so that a text of letters has as
// many ways as it has places times tokens.
TEST_F(HostileTokenizersTest, NestedTokensHaveABound) {
  const auto write = [this](int longest) {
    std::vector<Json> vocab;
    for (int length = 1; length <= longest; ++length) {
      vocab.push_back({std::string(length, 'a'), -1.0});
    }
    Json changes = {{"model", {{"type", "Unigram"}, {"vocab", vocab}}}};
    changes["model"]["merges"] = nullptr;
    WriteTokenizer(changes);
  };
  write(200);
  EXPECT_EQ(Ids(std::string(50'000, 'a')), std::vector<int>(250, 199));
  write(2000);
  ExpectRefused(Tokenize(std::string(50'000, 'a')), "model", kTooManySteps);
}

// A pattern that tries 2^n ways had a bound on the steps at each place of a
// text, and so none on those of a text.
TEST_F(HostileTokenizersTest, PatternsHaveStepsForATextAsAWhole) {
  const auto write = [this](const std::string& pattern) {
    WriteTokenizer({{"pre_tokenizer",
                     {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"}}}});
  };
  write("(a|aa)+$");
  ExpectRefused(Tokenize(Repeat("aaaaaaaaaaaaaaaaaaaab", 2000)),
                "pre_tokenizer", kTooManySteps);
  // Each place is as quick as the text behind it is long.
  write("a+b+a");
  ExpectRefused(Tokenize(std::string(200'000, 'a')), "pre_tokenizer",
                kTooManySteps);
  write("(a|aa)+$");
  EXPECT_EQ(Ids("aaaaab"), (std::vector<int>{0, 0, 0, 0, 0, 1}));
}

// It was reported that 10 MB of spaces ended in an error under the tokenizers
// of Llama 3.1 and Qwen 3, whose pattern looks for a line's end behind them
// all. Here merges make runs of 2, 4, ... 128, as theirs do.
TEST_F(HostileTokenizersTest, TakesTenMegabytesOfSpaces) {
  Json vocab = {{"a", nullptr}, {"b", nullptr}};
  std::vector<std::vector<std::string>> merges;
  std::string run = "\u0120";  // a space among the characters of bytes
  int id = 0;
  for (int length = 1; length <= 128; length *= 2) {
    vocab[run] = id++;
    if (length < 128) merges.push_back({run, run});
    run += run;
  }
  Json changes = {{"pre_tokenizer",
                   {{"type", "Sequence"},
                    {"pretokenizers",
                     {{{"type", "Split"},
                       {"behavior", "Isolated"},
                       {"pattern",
                        {{"Regex",
                          "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?"
                          "\\p{L}+|\\p{N}{"
                          "1,3}| "
                          "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!"
                          "\\S)|\\s+"}}}},
                      {{"type", "ByteLevel"},
                       {"add_prefix_space", false},
                       {"use_regex", false}}}}}},
                  {"model", {{"type", "BPE"}, {"merges", merges}}}};
  changes["model"]["vocab"] = vocab;
  WriteTokenizer(changes);
  // 10,000,005 = 78,125 x 128 + 4 + 1.
  std::vector<int> want(78'125, 7);
  want.insert(want.end(), {2, 0});
  EXPECT_EQ(Ids(std::string(10'000'005, ' ')), want);
}

TEST_F(HostileTokenizersTest, ManyPartsInARowAreRefused) {
  const Json lower = {{"type", "Lowercase"}};
  const Json inner = {{"type", "Sequence"},
                      {"normalizers", Repeated(lower, 100)}};
  WriteTokenizer(
      {{"normalizer",
        {{"type", "Sequence"}, {"normalizers", Repeated(inner, 100)}}}});
  ExpectRefused(Tokenize("a"), "normalizer.normalizers",
                "more than 1024 parts");
}

}  // namespace
}  // namespace castor::testing
