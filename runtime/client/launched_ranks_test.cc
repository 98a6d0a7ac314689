#include "runtime/client/launched_ranks.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

TEST(LaunchOfClient, MeetsMpirunsRanksOverTcpWhereRankZeroIsKnown) {
  Environment environment = {{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  auto launch = LaunchOfClient(environment);
  EXPECT_TRUE(absl::IsInvalidArgument(launch.status())) << launch.status();
  EXPECT_TRUE(absl::StrContains(launch.status().message(), "MASTER_ADDR"));
  environment["MASTER_ADDR"] = "node7";
  environment["MASTER_PORT"] = "none";
  EXPECT_FALSE(LaunchOfClient(environment).ok());
  environment["MASTER_PORT"] = "29500";
  launch = LaunchOfClient(environment);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_FALSE(launch->over_mpi);
  EXPECT_EQ(launch->rank, 1);
  EXPECT_EQ(launch->world_size, 2);
  EXPECT_EQ(launch->master_address, "node7");
  EXPECT_EQ(launch->master_port, 29500);
}

TEST(LaunchOfClient, IsAloneWithoutALauncher) {
  const auto launch = LaunchOfClient({});
  ASSERT_TRUE(launch.ok()) << launch.status();
  const auto group = JoinLaunchedRanks(*launch);
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ((*group)->world_size(), 1);
}

}  // namespace
}  // namespace castor
