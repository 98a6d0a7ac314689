#include "base/foreign_content.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

// A literal with its zero bytes.
template <size_t N>
constexpr absl::string_view Raw(const char (&bytes)[N]) {
  return absl::string_view(bytes, N - 1);
}
using ::testing::HasSubstr;

TEST(ForeignContent, NamesWhatAFileIs) {
  EXPECT_THAT(
      std::string(ForeignContent("version https://git-lfs.github.com/spec/v1\n"
                                 "oid sha256:4d7a\nsize 12345\n")),
      HasSubstr("git lfs pull"));
  EXPECT_THAT(std::string(ForeignContent(Raw("\x1f\x8b\x08\0\0\0"))),
              HasSubstr("gunzip"));
  EXPECT_THAT(std::string(ForeignContent("PK\x03\x04\x14")), HasSubstr(".npz"));
  for (const absl::string_view text :
       {Raw(""), Raw("version 3 of the text"), Raw("{\"text\": \"a\"}"),
        Raw("BZh"), Raw("\1\0\2\0\3\0\4\0\5\0")}) {
    EXPECT_EQ(ForeignContent(text), "") << text;
  }
}

TEST(WebPage, BeginsAsOne) {
  EXPECT_NE(WebPage("\n <!DOCTYPE HTML><html>"), "");
  EXPECT_NE(WebPage("<html lang=\"en\">"), "");
  EXPECT_EQ(WebPage("<h1>html</h1>"), "");
}

TEST(WideText, IsKnownByItsMarkOrItsZeros) {
  EXPECT_THAT(std::string(WideText(Raw("\xff\xfe"
                                       "a\0"))),
              HasSubstr("UTF-16"));
  EXPECT_THAT(std::string(WideText(Raw("\xff\xfe\0\0a\0\0\0"))),
              HasSubstr("UTF-32"));
  EXPECT_THAT(std::string(WideText(Raw("T\0h\0e\0 \0c\0a\0t\0"))),
              HasSubstr("UTF-16LE"));
  EXPECT_THAT(std::string(WideText(Raw("\0T\0h\0e\0 \0c\0a"))),
              HasSubstr("UTF-16BE"));
  for (const absl::string_view text :
       {Raw("The cat"), Raw("a\0b\0"), Raw("\1\0\2\0\3\0\4\0\5\0"),
        Raw("\0\0\0\0\0\0\0\0\0\0"), Raw("\xef\xbb\xbf{\"text\": 1}")}) {
    EXPECT_EQ(WideText(text), "") << text;
  }
}

}  // namespace
}  // namespace castor
