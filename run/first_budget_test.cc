#include "run/first_budget.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace castor {
namespace {

constexpr DeviceMemory kDevice = {
    .usable_bytes = 1000, .room = {.free_bytes = 900, .total_bytes = 1600}};

TEST(RoomFor, LeavesASixteenthOfTheCardFree) {
  EXPECT_EQ(RoomFor({.free_bytes = 300, .total_bytes = 1600},
                    /*own_bytes=*/700),
            900);
  EXPECT_EQ(RoomFor({.free_bytes = 0, .total_bytes = 1600}, /*own_bytes=*/50),
            1);
}

TEST(FirstBudget, IsWhatWasAskedForWhateverTheDeviceHas) {
  for (const bool follows : {false, true}) {
    EXPECT_EQ(FirstBudget(kDevice, 4000, follows), 4000);
    EXPECT_EQ(FirstBudget({}, 0, follows), 0);
  }
}

TEST(FirstBudget, IsAllThatIsUsableWhereNothingWasAskedFor) {
  EXPECT_EQ(FirstBudget(kDevice, kUnlimitedBytes, /*follows=*/false), 1000);
  EXPECT_EQ(FirstBudget({}, kUnlimitedBytes, /*follows=*/false),
            kUnlimitedBytes);
}

TEST(FirstBudget, ThatFollowsIsWhatOthersLeaveFree) {
  EXPECT_EQ(FirstBudget(kDevice, kUnlimitedBytes, /*follows=*/true), 800);
  const DeviceMemory small = {.usable_bytes = 700, .room = kDevice.room};
  EXPECT_EQ(FirstBudget(small, kUnlimitedBytes, /*follows=*/true), 700);
}

}  // namespace
}  // namespace castor
