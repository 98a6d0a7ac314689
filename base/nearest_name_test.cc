#include "base/nearest_name.h"

#include <gtest/gtest.h>

namespace castor {
namespace {

TEST(NearestName, TakesSpellingsForOneName) {
  EXPECT_EQ(PlainName("RTX PRO_6000"), PlainName("rtx-pro-6000"));
  EXPECT_NE(PlainName("a100-40"), PlainName("a100-80"));
}

TEST(NearestName, NamesTheNearestAndAll) {
  EXPECT_EQ(UnknownName("GPU", "4080", {"a100-80", "4090", "t4"}),
            "there is no GPU \"4080\"; the nearest name is \"4090\", of "
            "a100-80, 4090, t4");
}

TEST(NearestName, TakesABeginningForNear) {
  EXPECT_EQ(UnknownName("GPU", "h100", {"h200", "h100-sxm"}),
            "there is no GPU \"h100\"; the nearest name is \"h100-sxm\", of "
            "h200, h100-sxm");
}

}  // namespace
}  // namespace castor
