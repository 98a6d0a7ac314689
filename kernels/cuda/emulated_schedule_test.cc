#include "kernels/cuda/emulated_schedule.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "kernels/cuda/emulated_block.h"

namespace castor::kernels::cuda {
namespace {

constexpr int kBlocks = 12;
using Block = EmulatedBlock<kWarp>;

// Runs `write` with each block's number, in its turn, or as soon as it has one.
void InBlocks(const EmulatedRoom& room, bool turns,
              const std::function<void(uint32_t)>& write) {
  uint32_t begun = 0, turn = 0;
  CurrentEmulatedRoom() = room;
  EmulatedSchedule::Run(kBlocks, [&](int64_t) {
    const uint32_t mine = Block::TakeNumber(&begun);
    if (turns) Block::Await(&turn, mine, Block::Look(&turn));
    write(mine);
    Block::Pass(&turn);
  });
  CurrentEmulatedRoom() = EmulatedRoom();
  EXPECT_EQ(begun, kBlocks);
  EXPECT_EQ(turn, kBlocks);
}

TEST(EmulatedSchedule, KeepsTheOrderOfTurnsHoweverManyBlocksRun) {
  std::vector<uint32_t> expected(kBlocks);
  std::iota(expected.begin(), expected.end(), 0);
  for (int blocks : {1, 2, 3, 5, 20}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      std::vector<uint32_t> order;
      InBlocks({blocks, seed}, /*turns=*/true,
               [&](uint32_t mine) { order.push_back(mine); });
      EXPECT_EQ(order, expected) << blocks << " at once, seed " << seed;
    }
  }
}

TEST(EmulatedSchedule, HasManyOrdersWhereNobodyWaits) {
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    std::vector<uint32_t> order(kBlocks);
    std::atomic<size_t> written{0};
    InBlocks({3, seed}, /*turns=*/false, [&](uint32_t mine) {
      order[written.fetch_add(1, std::memory_order_relaxed)] = mine;
    });
    orders.insert(order);
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

#if CASTOR_THREAD_SANITIZER
TEST(EmulatedScheduleDeathTest, ShowsSanitizersWhatTurnsDoNotOrder) {
  // Each block adds its number to a sum, in its turn or without one.
  const auto add = [](bool turns) {
    uint32_t sum = 0;
    InBlocks({3, 1}, turns, [&](uint32_t mine) { sum += mine; });
    std::exit(sum == kBlocks * (kBlocks - 1) / 2 ? 0 : 1);
  };
  EXPECT_EXIT(add(/*turns=*/true), testing::ExitedWithCode(0), "");
  // The sanitizer's own exit code.
  EXPECT_EXIT(add(/*turns=*/false), testing::ExitedWithCode(66), "data race");
}
#endif

}  // namespace
}  // namespace castor::kernels::cuda
