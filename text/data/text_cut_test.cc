#include "text/data/text_cut.h"

#include <gtest/gtest.h>

#include <string>

namespace castor {
namespace {

std::string Filled(char c) { return std::string(kMaxPartBytes + 10, c); }

TEST(CutText, TakesAShortTextWhole) {
  EXPECT_EQ(CutText(""), 0);
  EXPECT_EQ(CutText("a b c"), 5);
  EXPECT_EQ(CutText(std::string(kMinPartBytes, ' ')), kMinPartBytes);
  EXPECT_EQ(CutText(std::string(kMinPartBytes + 1, 'a')), kMinPartBytes + 1);
}

TEST(CutText, PrefersASpaceBetweenLettersThenBetweenAnythingThenALineEnd) {
  std::string text = Filled('x');
  EXPECT_EQ(CutText(text), kMaxPartBytes);
  text[kMinPartBytes + 5] = '\n';
  EXPECT_EQ(CutText(text), kMinPartBytes + 6);
  text[kMinPartBytes + 90] = ' ';
  text[kMinPartBytes + 91] = '1';
  EXPECT_EQ(CutText(text), kMinPartBytes + 90);
  text[kMinPartBytes + 95] = text[kMinPartBytes + 96] = ' ';
  EXPECT_EQ(CutText(text), kMinPartBytes + 90);
  text[kMinPartBytes + 99] = ' ';
  EXPECT_EQ(CutText(text), kMinPartBytes + 99);
  // Before the range nothing is looked for.
  text[kMinPartBytes - 5] = ' ';
  EXPECT_EQ(CutText(text), kMinPartBytes + 99);
}

TEST(CutText, DoesNotCutACharacter) {
  for (int shift = 0; shift < 4; ++shift) {
    std::string text(static_cast<size_t>(shift), 'x');
    while (text.size() < kMaxPartBytes + 10) text += "\xf0\x9f\x98\x80";
    const int64_t cut = CutText(text);
    EXPECT_EQ(FindInvalidUtf8(text.substr(0, cut)), -1);
    EXPECT_GT(cut, kMaxPartBytes - 4);
  }
}

// Against Python's: [b for b in cases if not decodes(b)].
TEST(FindInvalidUtf8, FindsTheFirstBadByte) {
  EXPECT_EQ(FindInvalidUtf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), -1);
  EXPECT_EQ(FindInvalidUtf8("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"), -1);
  EXPECT_EQ(FindInvalidUtf8("abc\xff"), 3);
  EXPECT_EQ(FindInvalidUtf8("\x80"), 0);
  EXPECT_EQ(FindInvalidUtf8("a\xc0\x80"), 1);         // overlong
  EXPECT_EQ(FindInvalidUtf8("\xc1\xbf"), 0);          // overlong
  EXPECT_EQ(FindInvalidUtf8("\xe0\x9f\xbf"), 0);      // overlong
  EXPECT_EQ(FindInvalidUtf8("\xf0\x8f\xbf\xbf"), 0);  // overlong
  EXPECT_EQ(FindInvalidUtf8("\xed\xa0\x80"), 0);      // a surrogate
  EXPECT_EQ(FindInvalidUtf8("\xf4\x90\x80\x80"), 0);  // above U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("\xf5\x80\x80\x80"), 0);
  EXPECT_EQ(FindInvalidUtf8("ab\xe2\x82"), 2);  // cut short
  EXPECT_EQ(FindInvalidUtf8("\xf0\x9f\x98"), 0);
  EXPECT_EQ(FindInvalidUtf8("\xc3z"), 0);
}

}  // namespace
}  // namespace castor
