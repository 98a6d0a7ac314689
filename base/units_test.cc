#include "base/units.h"

#include <gtest/gtest.h>

namespace castor {
namespace {

TEST(ParseBytes, ReadsNumbersUnitsAndUnlimited) {
  EXPECT_EQ(*ParseBytes("4096"), 4096);
  EXPECT_EQ(*ParseBytes("48MiB"), 48 * 1024 * 1024);
  EXPECT_EQ(*ParseBytes(" 1.5 kb "), 1500);
  EXPECT_EQ(*ParseBytes("2tib"), int64_t{2} << 40);
  EXPECT_EQ(*ParseBytes("Unlimited"), kUnlimitedBytes);
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "-1", "MiB", "1 parsec", "1..2", "nan", "1e9", "99999999999TiB"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
}

TEST(FormatBytes, GivesThreeSignificantDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(48 << 20), "48.0 MiB");
  EXPECT_EQ(FormatBytes((int64_t{1} << 30) - 1), "1.00 GiB");
  EXPECT_EQ(FormatBytes(123 << 20), "123 MiB");
  EXPECT_EQ(FormatBytes(kUnlimitedBytes), "unlimited");
}

TEST(RoundUp, KeepsMultiples) {
  EXPECT_EQ(RoundUp(0, 64), 0);
  EXPECT_EQ(RoundUp(1, 64), 64);
  EXPECT_EQ(RoundUp(64, 64), 64);
}

}  // namespace
}  // namespace castor
