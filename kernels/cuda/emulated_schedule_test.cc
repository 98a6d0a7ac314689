#include "kernels/cuda/emulated_schedule.h"

#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/emulated_block.h"

namespace castor::kernels::cuda {
namespace {

constexpr int kBlocks = 12;
using Block = EmulatedBlock<kWarp>;

// In which order blocks write down their numbers, where they take turns, or
// only numbers.
std::vector<uint32_t> Order(const EmulatedRoom& room, bool turns) {
  uint32_t begun = 0, turn = 0;
  std::vector<uint32_t> order;
  CurrentEmulatedRoom() = room;
  EmulatedSchedule::Run(kBlocks, [&](int64_t) {
    const uint32_t mine = Block::TakeNumber(&begun);
    if (turns) Block::Await(&turn, mine, Block::Look(&turn));
    order.push_back(mine);
    Block::Pass(&turn);
  });
  CurrentEmulatedRoom() = EmulatedRoom();
  EXPECT_EQ(begun, kBlocks);
  EXPECT_EQ(turn, kBlocks);
  return order;
}

TEST(EmulatedSchedule, KeepsTheOrderOfTurnsHoweverManyBlocksRun) {
  std::vector<uint32_t> expected(kBlocks);
  std::iota(expected.begin(), expected.end(), 0);
  for (int blocks : {1, 2, 3, 5, 20}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      EXPECT_EQ(Order({blocks, seed}, /*turns=*/true), expected)
          << blocks << " at once, seed " << seed;
    }
  }
}

TEST(EmulatedSchedule, HasManyOrdersWhereNobodyWaits) {
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    orders.insert(Order({3, seed}, /*turns=*/false));
  }
  EXPECT_GE(orders.size(), 6u);
}

TEST(EmulatedScheduleDeathTest, EndsWhereBlocksWaitForEver) {
  // One block at a time, which waits for the next one.
  EXPECT_DEATH(EmulatedSchedule::Run(2,
                                     [](int64_t i) {
                                       static uint32_t turn = 0;
                                       if (i == 0) Block::Await(&turn, 1, 0);
                                       Block::Pass(&turn);
                                     }),
               "broken invariant");
}

}  // namespace
}  // namespace castor::kernels::cuda
