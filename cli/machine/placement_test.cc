#include "cli/machine/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "device/comm/thread_ranks.h"
#include "device/topology/topology.h"

namespace castor::cli {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;

Place Node(const std::string& host, const char* topology,
           const ProcessorSet& bound = {}) {
  auto place = Topology::Synthetic(topology)->PlaceOf(bound);
  EXPECT_TRUE(place.ok()) << place.status();
  place->host = host;
  place->machine = "id of " + host;
  place->memory = {{"machine", 64 * kGiB}};
  return *std::move(place);
}

Placement Divide(std::vector<Place> places) {
  Placement placement{std::move(places), {}};
  placement.shares = DivideMachines(placement.places);
  return placement;
}

TEST(FormatPlacement, ListsEachMachinesRanks) {
  const char* const kMachine =
      "package:2 [numa(memory=34359738368)] core:4 pu:2";
  const Placement placement =
      Divide({Node("a", kMachine), Node("b", kMachine), Node("a", kMachine)});
  EXPECT_EQ(FormatPlacement(placement, "mpirun", "MPI"),
            "3 ranks on 2 machines, started by mpirun, connected by MPI\n"
            "a: 2 ranks, 16 processors, memory 64.0 GiB, NUMA nodes 0 (32.0 "
            "GiB), 1 (32.0 GiB)\n"
            "    rank  processors  NUMA nodes       memory\n"
            "       0  0-7         0              32.0 GiB\n"
            "       2  8-15        1              32.0 GiB\n"
            "b: 1 rank, 16 processors, memory 64.0 GiB, NUMA nodes 0 (32.0 "
            "GiB), 1 (32.0 GiB)\n"
            "    rank  processors  NUMA nodes       memory\n"
            "       1  0-15        0-1            32.0 GiB\n"
            "each rank: 8 threads, 1/2 of memory.host_memory and "
            "memory.pinned_memory, which are a machine's, and "
            "memory.device_memory of its own\n");
}

TEST(FormatPlacement, SaysWhatIsAllowedAndOversubscribed) {
  std::vector<Place> places(3, Node("a", "core:2 pu:1"));
  for (Place& place : places) {
    place.machine_processors = 8;
    place.memory.push_back({"job", 6 * kGiB});
  }
  const std::string map = FormatPlacement(Divide(places), "srun", "TCP");
  EXPECT_THAT(map, HasSubstr("8 processors (2 allowed by its cpuset), memory "
                             "6.00 GiB (of 64.0 GiB, by its control group)\n"));
  EXPECT_THAT(map, HasSubstr("2.00 GiB  oversubscribed\n"));
  EXPECT_THAT(map, HasSubstr("each rank: 1 thread, 1/3"));
  EXPECT_THAT(map, HasSubstr("note: 3 ranks share 2 processors of a"));
}

// Ranks that are threads of this process: all on one machine.
TEST(FindPlacement, IsTheSameOnAllRanks) {
  constexpr int kRanks = 3;
  const auto ranks = ThreadGroup::Create(kRanks);
  const auto topology = Topology::OfThisMachine();
  ASSERT_TRUE(topology.ok()) << topology.status();
  const auto place = PlaceOfThisProcess(*topology);
  ASSERT_TRUE(place.ok()) << place.status();
  const std::vector<RankShare> expected =
      DivideMachines(std::vector<Place>(kRanks, *place));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      RankGroup group(ranks->NewTransport(rank), {});
      const auto placement = FindPlacement(group);
      ASSERT_TRUE(placement.ok()) << placement.status();
      EXPECT_EQ(placement->places[rank], *place);
      EXPECT_EQ(placement->shares, expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TakeShare, LeavesAGroupOfOneAsItIs) {
  RankGroup alone(nullptr, {});
  Config config;
  config.memory.host_memory = 1000;
  const Config before = config;
  std::vector<std::string> notes;
  const auto share = TakeShare(alone, &config, &notes);
  ASSERT_TRUE(share.ok()) << share.status();
  EXPECT_EQ(config, before);
  EXPECT_EQ(share->machine_bytes, 0);
  EXPECT_TRUE(notes.empty());
}

}  // namespace
}  // namespace castor::cli
