#include "cli/machine/apply_share.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace castor::cli {
namespace {

RankShare ShareOfThree() {
  RankShare share;
  share.local_size = 2;
  share.largest_local_size = 3;
  share.processors = {0, 1, 2, 3, 4, 5};
  share.threads = 4;
  return share;
}

TEST(ApplyShare, DividesTheMachinesBudgetsByTheFullestMachinesRanks) {
  Config config;
  config.memory.host_memory = 1000;
  config.memory.pinned_memory = 300;
  config.memory.device_memory = 500;
  ApplyShare(ShareOfThree(), &config);
  EXPECT_EQ(config.memory.host_memory, 333);
  EXPECT_EQ(config.memory.pinned_memory, 100);
  EXPECT_EQ(config.memory.device_memory, 500);  // each rank's own
}

TEST(ApplyShare, LeavesUnlimitedBudgetsUnlimited) {
  Config config;
  ApplyShare(ShareOfThree(), &config);
  EXPECT_EQ(config.memory.host_memory, kUnlimitedBytes);
  EXPECT_EQ(config.memory.device_memory, kUnlimitedBytes);
  EXPECT_EQ(config.memory.pinned_memory, kUnlimitedBytes);
}

TEST(ApplyShare, GivesThreadsWhereTheConfigDoesNot) {
  Config config;
  ApplyShare(ShareOfThree(), &config);
  EXPECT_EQ(config.device.threads, 4);
  EXPECT_EQ(ThreadsOf(config.device), 4);
  config.device = {.type = DeviceType::kCuda};
  ApplyShare(ShareOfThree(), &config);
  EXPECT_EQ(config.device.threads, 1);
  config.device.threads = 7;
  ApplyShare(ShareOfThree(), &config);
  EXPECT_EQ(config.device.threads, 7);
}

TEST(ApplyShare, OfOneRankChangesNoBudget) {
  Config config;
  config.memory.host_memory = 1001;
  Config before = config;
  RankShare alone;
  alone.threads = 2;
  ApplyShare(alone, &config);
  before.device.threads = 2;
  EXPECT_EQ(config, before);
}

}  // namespace
}  // namespace castor::cli
