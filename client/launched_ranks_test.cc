#include "client/launched_ranks.h"

#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "device/comm/thread_ranks.h"
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

// Returns the status that each of three ranks gets.
std::vector<absl::Status> OnThreeRanks(
    const std::function<absl::Status(RankGroup&)>& work) {
  const auto threads = ThreadGroup::Create(3);
  std::vector<absl::Status> results(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      RankGroup group(threads->NewTransport(rank),
                      {.time_limit_ns = 20'000'000'000});
      results[rank] = work(group);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return results;
}

TEST(BroadcastBytes, GivesAllRanksTheRootsBytes) {
  // More than a piece, and not a multiple of one.
  std::string sent((size_t{9} << 20) + 5, 0);
  std::iota(sent.begin(), sent.end(), 0);
  for (const absl::Status& status :
       OnThreeRanks([&](RankGroup& group) -> absl::Status {
         for (int root = 0; root < 3; ++root) {
           std::string data =
               group.rank() == root ? sent : std::string(sent.size(), 'x');
           const absl::Status got =
               BroadcastBytes(group, "w", root, absl::MakeSpan(data));
           if (!got.ok()) return got;
           EXPECT_TRUE(data == sent) << root;
         }
         std::string none;
         return BroadcastBytes(group, "nothing", 0, absl::MakeSpan(none));
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(BroadcastBytes, TellsRanksThatWantSomethingElse) {
  for (const absl::Status& status :
       OnThreeRanks([&](RankGroup& group) -> absl::Status {
         std::string data(group.rank() == 1 ? 8 : 16, 'a');
         return BroadcastBytes(group, "w", 0, absl::MakeSpan(data));
       })) {
    EXPECT_TRUE(absl::StrContains(status.message(), "\"w, 8 bytes\""))
        << status;
  }
}

}  // namespace
}  // namespace castor
