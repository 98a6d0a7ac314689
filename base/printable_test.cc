#include "base/printable.h"

#include <gtest/gtest.h>

namespace castor {
namespace {

TEST(Printable, ShowsTextAsItIs) {
  EXPECT_EQ(Printable("rank 2: \"größer\" \\ 100 %"),
            "rank 2: \"größer\" \\ 100 %");
  EXPECT_EQ(Printable(""), "");
}

TEST(Printable, ControlIsSpelledOut) {
  EXPECT_EQ(Printable("a\nb"), "a b");
  EXPECT_EQ(Printable("\x1b[2Jgone\r\a\x7f"), "\\x1b[2Jgone\\x0d\\x07\\x7f");
  EXPECT_EQ(Printable(absl::string_view("\0x", 2)), "\\x00x");
  // CSI, as one byte of control in UTF-8.
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J\xc2\xb0\xc2"),
            "\\x9b2J\xc2\xb0\xc2");
}

}  // namespace
}  // namespace castor
