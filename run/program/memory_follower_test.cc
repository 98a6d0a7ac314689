#include "run/program/memory_follower.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace castor {
namespace {

constexpr int64_t kLeast = 320;
constexpr int64_t kMost = 3200;

TEST(MemoryFollower, ShrinksAtOnceByMoreThanAThirtySecond) {
  MemoryFollower follower;
  EXPECT_EQ(follower.Look(1550, 1600, kLeast, kMost), std::nullopt);
  EXPECT_EQ(follower.Look(1549, 1600, kLeast, kMost), 1549);
  EXPECT_EQ(follower.Look(10, 1600, kLeast, kMost), kLeast);
  EXPECT_EQ(follower.Look(10, kLeast, kLeast, kMost), std::nullopt);
}

TEST(MemoryFollower, GrowsWhenThereWasMoreRoomForSomeSteps) {
  MemoryFollower follower;
  const auto look = [&](int64_t room) {
    return follower.Look(room, 1600, kLeast, kMost);
  };
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(look(1700), std::nullopt);
  // Another program that takes some of it again in between begins the count
  // anew.
  for (int64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(look(i % 3 == 2 ? 1600 : 2000), std::nullopt);
  }
  for (int64_t i = 1; i < MemoryFollower::kGrowAfter; ++i) {
    EXPECT_EQ(look(1701), std::nullopt);
  }
  EXPECT_EQ(look(9999), kMost);
}

TEST(MemoryFollower, WaitsLongerAfterARefusal) {
  MemoryFollower follower;
  const auto steps_to_grow = [&] {
    int64_t steps = 1;
    while (!follower.Look(2000, 1600, kLeast, kMost).has_value()) ++steps;
    return steps;
  };
  EXPECT_EQ(steps_to_grow(), 4);
  follower.Refused();
  EXPECT_EQ(steps_to_grow(), 8);
  for (int64_t i = 0; i < 9; ++i) follower.Refused();
  EXPECT_EQ(steps_to_grow(), MemoryFollower::kMostWait);
  follower.Changed();
  EXPECT_EQ(steps_to_grow(), 4);
}

}  // namespace
}  // namespace castor
