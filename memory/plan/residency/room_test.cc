#include "memory/plan/residency/room.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "base/units.h"

namespace castor {
namespace {

TEST(Room, FindsLeastFreeOverTheEndOfTheStep) {
  Room room({5, 3, 8, 6});
  EXPECT_EQ(room.Min(0, 4), 3);
  EXPECT_EQ(room.Min(2, 4), 6);
  EXPECT_EQ(room.Min(2, 5), 5);  // moments 2, 3, 0
  EXPECT_EQ(room.Min(2, 2), kUnlimitedBytes);
  room.Take(3, 6, 2);  // moments 3, 0, 1
  EXPECT_EQ(room.Min(0, 1), 3);
  EXPECT_EQ(room.Min(1, 2), 1);
  EXPECT_EQ(room.Min(3, 4), 4);
}

TEST(Room, StartsAfterTheLastFullMoment) {
  const Room room({5, 3, 8, 6});
  EXPECT_EQ(room.EarliestStart(0, 4, 3), 0);
  EXPECT_EQ(room.EarliestStart(0, 4, 4), 2);
  EXPECT_EQ(room.EarliestStart(0, 4, 7), 4);
  EXPECT_EQ(room.EarliestStart(2, 6, 4), 6);  // moment 1 is full
  EXPECT_EQ(room.EarliestStart(2, 5, 5), 2);
  EXPECT_EQ(room.EarliestStart(4, 6, 4), 6);
}

RC_GTEST_PROP(Room, AgreesWithAnArray, ()) {
  // Many blocks of moments, and a part of one.
  const auto start = *rc::gen::resize(
      300, rc::gen::nonEmpty(rc::gen::container<std::vector<int64_t>>(
               rc::gen::inRange(0, 50))));
  const int64_t moments = static_cast<int64_t>(start.size());
  std::vector<int64_t> array = start;
  Room room(start);
  for (int i = 0; i < 20; ++i) {
    const int64_t from = *rc::gen::inRange<int64_t>(0, moments);
    const int64_t to = from + *rc::gen::inRange<int64_t>(0, moments + 1);
    const int64_t bytes = *rc::gen::inRange(-20, 20);
    room.Take(from, to, bytes);
    for (int64_t t = from; t < to; ++t) array[t % moments] -= bytes;

    const int64_t lo = *rc::gen::inRange<int64_t>(0, 2 * moments);
    const int64_t hi = lo + *rc::gen::inRange<int64_t>(0, moments + 1);
    int64_t least = kUnlimitedBytes;
    for (int64_t t = lo; t < hi; ++t) {
      least = std::min(least, array[t % moments]);
    }
    RC_ASSERT(room.Min(lo, hi) == least);
    const int64_t wanted = *rc::gen::inRange(-50, 60);
    int64_t earliest = hi;
    while (earliest > lo && array[(earliest - 1) % moments] >= wanted) {
      --earliest;
    }
    RC_ASSERT(room.EarliestStart(lo, hi, wanted) == earliest);
    RC_ASSERT(room.Values() == array);
  }
}

}  // namespace
}  // namespace castor
