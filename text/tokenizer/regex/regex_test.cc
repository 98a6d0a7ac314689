#include "text/tokenizer/regex/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace castor::text {
namespace {

using ::testing::HasSubstr;

// `text` cut at the matches of `pattern`; empty parts are left out.
std::vector<std::string> Cut(const std::string& pattern,
                             const std::string& text) {
  const auto regex = Regex::Make(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  std::vector<std::string> parts;
  size_t done = 0;
  const auto add = [&](size_t begin, size_t end) {
    if (begin < end) parts.push_back(text.substr(begin, end - begin));
  };
  Allowance allowance(text.size());
  const absl::Status status =
      (*regex)->ForEachMatch(text, &allowance, [&](size_t begin, size_t end) {
        add(done, begin);
        add(begin, end);
        done = end;
      });
  EXPECT_TRUE(status.ok()) << status;
  add(done, text.size());
  return parts;
}

// The expected parts are Oniguruma's: pre_tokenizers.Split(Regex(pattern),
// "isolated") of PyPI's tokenizers 0.23.3.
TEST(Regex, ReadsPatternsAsOnigurumaDoes) {
  using Parts = std::vector<std::string>;
  const struct {
    const char* pattern;
    const char* text;
    Parts parts;
  } kCases[] = {
      {"(?i:'s)", "'\u017fx'Sx", {"'\u017f", "x", "'S", "x"}},
      {"(?i:k)", "ak\u212aKb", {"a", "k", "\u212a", "K", "b"}},
      {"^a", "aba\naa\n", {"a", "ba\n", "a", "a\n"}},
      {"$", "ab\ncd\n", {"ab", "\ncd", "\n"}},
      {"a$", "a\nba", {"a", "\nb", "a"}},
      {"\\p{N}{1,3}+", "1234567", {"1234567"}},
      {"a{,2}", "aaaaa", {"aa", "aa", "a"}},
      {"[\\p{L}&&[^a-c]]+", "abcdefabc", {"abc", "def", "abc"}},
      {"\\bfoo\\b", "foo xfoo foo", {"foo", " xfoo ", "foo"}},
      {"x*", "axxb", {"a", "xx", "b"}},
      {"[a-c-e]", "a-e-d", {"a", "-", "e", "-", "d"}},
      {"\\u0041|\\x{42}|\\x43", "ABC", {"A", "B", "C"}},
      {"(?i)AbC", "xABCx", {"x", "ABC", "x"}},
      {"\\p{^L}", "a1", {"a", "1"}},
      {"a|", "ba", {"b", "a"}},
      {"[^\\S\\n]+", "a \n b", {"a", " ", "\n", " ", "b"}},
      {"{", "a{b", {"a", "{", "b"}},
      {"a{x}", "a{x}b", {"a{x}", "b"}},
      {"(?m:.)", "a\nb", {"a", "\n", "b"}},
      {"\\e|\\a|\\v|\\f", "a\vb\fc", {"a", "\v", "b", "\f", "c"}},
  };
  for (const auto& [pattern, text, parts] : kCases) {
    EXPECT_EQ(Cut(pattern, text), parts) << pattern;
  }
}

TEST(Regex, RefusesWhatItDoesNotDo) {
  for (const char* pattern :
       {"(a)\\1", "(?<n>a)", "[[:alpha:]]", "\\R", "\\X", "\\K", "(?i:ss)",
        "(?i:\u00e9)", "\\p{Klingon}", "(?x)a", "a{2}?", "[a", "(a", "a)",
        "[z-a]", "\\", "\\x{110000}", "(?<=a+)b", "*"}) {
    const auto regex = Regex::Make(pattern);
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kInvalidArgument)
        << pattern;
    EXPECT_FALSE(regex.status().message().empty()) << pattern;
  }
  EXPECT_THAT(std::string(Regex::Make("\\p{Klingon}").status().message()),
              HasSubstr("\"Klingon\""));
}

// PCRE2 is given a text in windows of 64 characters: what reaches over the end
// of one is found as if there were none.
TEST(Regex, FindsTheSameWhereverAWindowEnds) {
  using Parts = std::vector<std::string>;
  for (size_t n = 40; n < 300; n += 1 + n / 60) {
    const std::string x(n, 'x'), a(n, 'a'), spaces(n, ' ');
    EXPECT_EQ(Cut("a+", x + a + x), (Parts{x, a, x})) << n;
    EXPECT_EQ(Cut("ab", x + "ab" + x), (Parts{x, "ab", x})) << n;
    EXPECT_EQ(Cut("x+(?=ab)", x + "ab" + x), (Parts{x, "ab" + x})) << n;
    EXPECT_EQ(Cut("x+(?!a)", x + "ab"), (Parts{x.substr(1), "xab"})) << n;
    EXPECT_EQ(Cut("(?<=a)b", a + "bb" + x), (Parts{a, "b", "b" + x})) << n;
    EXPECT_EQ(Cut("a+$", a + "b" + a), (Parts{a + "b", a})) << n;
    EXPECT_EQ(Cut("^x", x + "\n" + x),
              (Parts{"x", x.substr(1) + "\n", "x", x.substr(1)}))
        << n;
    EXPECT_EQ(Cut("(?:ab?)+?c|x", x + a + "c").back(), a + "c") << n;
    EXPECT_EQ(Cut("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", spaces + "a" + spaces),
              (Parts{spaces.substr(1), " ", "a", spaces}))
        << n;
  }
}

TEST(Regex, TakesItsStepsFromTheAllowance) {
  const auto regex = Regex::Make("(a|aa)+$|(b|c)++d");
  ASSERT_TRUE(regex.ok()) << regex.status();
  const auto search = [&](const std::string& text) {
    Allowance allowance(text.size());
    return (*regex)->ForEachMatch(text, &allowance, [](size_t, size_t) {});
  };
  EXPECT_TRUE(search("aaaaaaaaaab").ok());
  EXPECT_TRUE(search(std::string(1000, 'a')).ok());
  EXPECT_TRUE(search(std::string(200, 'b')).ok());
  // Two to the power of 60 ways; a thousand times a few thousand; each place as
  // long as the text.
  std::string runs;
  for (int i = 0; i < 3000; ++i) runs += std::string(20, 'a') + "b";
  for (const std::string& text :
       {std::string(60, 'a') + "b", runs, std::string(200'000, 'b')}) {
    EXPECT_EQ(search(text).code(), absl::StatusCode::kResourceExhausted)
        << text.substr(0, 70);
  }
}

TEST(Regex, FindsALiteralAsItIsWritten) {
  const auto regex = Regex::MakeLiteral("a.");
  ASSERT_TRUE(regex.ok());
  std::vector<size_t> begins;
  Allowance allowance(10);
  ASSERT_TRUE((*regex)
                  ->ForEachMatch("ab a. a.a.", &allowance,
                                 [&](size_t begin, size_t end) {
                                   begins.push_back(begin);
                                   EXPECT_EQ(end, begin + 2);
                                 })
                  .ok());
  EXPECT_EQ(begins, (std::vector<size_t>{3, 6, 8}));
}

}  // namespace
}  // namespace castor::text
