#include "device/topology/share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "device/topology/topology.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kGiB = int64_t{1} << 30;
// Processors 2c and 2c + 1 are core c's; cores 0 to 3 are on node 0.
constexpr char kTwoSockets[] = "package:2 [numa] core:4 pu:2";

ProcessorSet Range(int begin, int end) {
  ProcessorSet set(end - begin);
  std::iota(set.begin(), set.end(), begin);
  return set;
}

// A rank on the machine `description`, named `machine`, bound to a set.
Place On(const std::string& description, const ProcessorSet& bound = {},
         const std::string& machine = "m0", int64_t memory = 64 * kGiB) {
  const auto topology = Topology::Synthetic(description);
  EXPECT_TRUE(topology.ok()) << topology.status();
  auto place = topology->PlaceOf(bound);
  EXPECT_TRUE(place.ok()) << place.status();
  place->host = machine;
  place->machine = machine;
  place->memory = {{"machine", memory}};
  return *std::move(place);
}

std::vector<std::string> ProcessorsOf(const std::vector<RankShare>& shares) {
  std::vector<std::string> texts;
  for (const RankShare& share : shares) {
    texts.push_back(FormatProcessors(share.processors));
  }
  return texts;
}

std::vector<RankShare> Unbound(const std::string& description, int ranks) {
  return DivideMachines(std::vector<Place>(ranks, On(description)));
}

TEST(Share, OfOneRankIsTheWholeMachine) {
  const std::vector<RankShare> shares = Unbound(kTwoSockets, 1);
  ASSERT_THAT(shares, SizeIs(1));
  EXPECT_EQ(shares[0], (RankShare{.processors = Range(0, 16),
                                  .nodes = {0, 1},
                                  .threads = 16,
                                  .machine_bytes = 64 * kGiB}));
}

TEST(Share, OfUnboundRanksFollowsTheNodes) {
  const struct {
    int ranks, threads;
    std::vector<std::string> processors;
  } kCases[] = {
      {2, 8, {"0-7", "8-15"}},
      {3, 4, {"0-3", "4-7", "8-15"}},
      {4, 4, {"0-3", "4-7", "8-11", "12-15"}},
      {5, 2, {"0-1", "2-3", "4-7", "8-11", "12-15"}},
      {8, 2, {"0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"}},
      // Fewer cores than ranks: siblings are parted.
      {9, 1, {"0", "1-2", "3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"}},
  };
  for (const auto& c : kCases) {
    const std::vector<RankShare> shares = Unbound(kTwoSockets, c.ranks);
    ASSERT_THAT(shares, SizeIs(c.ranks));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const RankShare& share = shares[rank];
      EXPECT_EQ(share.rank, rank);
      EXPECT_EQ(share.local_rank, rank);
      EXPECT_EQ(share.local_size, c.ranks);
      EXPECT_EQ(share.largest_local_size, c.ranks);
      EXPECT_EQ(share.threads, c.threads) << c.ranks;
      EXPECT_FALSE(share.oversubscribed);
      EXPECT_EQ(share.machine_bytes, 64 * kGiB / c.ranks);
    }
    EXPECT_EQ(ProcessorsOf(shares), c.processors) << c.ranks;
  }
}

// For any number, parts are disjoint, nothing is left over, and sizes are as
// even as they can be while whole cores last.
TEST(Share, OfUnboundRanksIsAPartition) {
  for (const char* machine :
       {kTwoSockets, "numa:4 core:3 pu:1", "package:2 [numa] core:12 pu:2",
        "core:7 pu:4", "numa:3 core:1 pu:8"}) {
    const int processors = static_cast<int>(On(machine).processors().size());
    const int cores = static_cast<int>(On(machine).cores.size());
    for (int ranks = 1; ranks <= processors; ++ranks) {
      SCOPED_TRACE(absl::StrCat(machine, ", ranks ", ranks));
      const std::vector<RankShare> shares = Unbound(machine, ranks);
      std::set<int> seen;
      size_t total = 0, least = processors;
      for (const RankShare& share : shares) {
        EXPECT_FALSE(share.oversubscribed);
        seen.insert(share.processors.begin(), share.processors.end());
        total += share.processors.size();
        least = std::min(least, share.processors.size());
        EXPECT_FALSE(share.nodes.empty());
      }
      EXPECT_EQ(total, seen.size());
      EXPECT_EQ(total, static_cast<size_t>(processors));
      const size_t even = ranks <= cores ? cores / ranks * (processors / cores)
                                         : processors / ranks;
      EXPECT_EQ(least, even);
      for (const RankShare& share : shares) {
        EXPECT_EQ(share.threads, static_cast<int>(least));
      }
    }
  }
}

TEST(Share, GoesOverABorderOfNodesWhereThatMakesTheLeastLarger) {
  // A cut by nodes would give the smallest share 6 of 24 cores, an even one
  // gives it 8.
  const std::vector<RankShare> shares = Unbound("numa:2 core:12 pu:1", 3);
  EXPECT_THAT(ProcessorsOf(shares), ElementsAre("0-7", "8-15", "16-23"));
  EXPECT_THAT(shares[0].nodes, ElementsAre(0));
  EXPECT_THAT(shares[1].nodes, ElementsAre(0, 1));
  EXPECT_THAT(shares[2].nodes, ElementsAre(1));
}

TEST(Share, OfMoreNodesThanRanksIsWholeNodes) {
  const std::vector<RankShare> shares = Unbound("numa:4 core:4 pu:1", 2);
  EXPECT_THAT(shares[0].nodes, ElementsAre(0, 1));
  EXPECT_THAT(shares[1].nodes, ElementsAre(2, 3));
}

TEST(Share, OfRanksBoundApartIsWhatTheyAreBoundTo) {
  const std::vector<Place> places = {On(kTwoSockets, Range(8, 12)),
                                     On(kTwoSockets, Range(0, 2)),
                                     On(kTwoSockets, {2, 14})};
  const std::vector<RankShare> shares = DivideMachines(places);
  EXPECT_THAT(ProcessorsOf(shares), ElementsAre("8-11", "0-1", "2,14"));
  EXPECT_THAT(shares[2].nodes, ElementsAre(0, 1));
  EXPECT_EQ(shares[0].threads, 2);  // the least
  const std::vector<std::string> notes = ShareNotes(places, shares);
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_THAT(notes[0], HasSubstr("bound the ranks on m0 to 8 of its 16 "
                                  "processors"));
}

// mpirun binds more than two ranks like this: to a socket each, in turns.
TEST(Share, OfRanksBoundToSocketsDividesEachSocket) {
  std::vector<Place> places;
  for (int rank = 0; rank < 5; ++rank) {
    places.push_back(
        On(kTwoSockets, rank % 2 == 0 ? Range(0, 8) : Range(8, 16)));
  }
  const std::vector<RankShare> shares = DivideMachines(places);
  EXPECT_THAT(ProcessorsOf(shares),
              ElementsAre("0-1", "8-11", "2-3", "12-15", "4-7"));
  EXPECT_THAT(ShareNotes(places, shares), IsEmpty());
}

TEST(Share, OfOverlappingSetsStaysWithinThem) {
  const std::vector<Place> places = {On(kTwoSockets, Range(0, 16)),
                                     On(kTwoSockets, Range(0, 8))};
  // The second takes what it may until the first has no more than it.
  EXPECT_THAT(ProcessorsOf(DivideMachines(places)), ElementsAre("8-15", "0-7"));
  const std::vector<Place> chain = {On(kTwoSockets, Range(0, 4)),
                                    On(kTwoSockets, Range(2, 6)),
                                    On(kTwoSockets, Range(4, 8))};
  EXPECT_THAT(ProcessorsOf(DivideMachines(chain)),
              ElementsAre("0-1", "2-5", "6-7"));
  // A core of which a rank may use one processor alone.
  const std::vector<Place> half = {On(kTwoSockets, {0, 1, 2, 3}),
                                   On(kTwoSockets, {3})};
  EXPECT_THAT(ProcessorsOf(DivideMachines(half)), ElementsAre("0-2", "3"));
}

TEST(Share, OfFewerProcessorsThanRanksIsOneThreadEach) {
  const std::vector<Place> places(3, On("core:2 pu:1"));
  const std::vector<RankShare> shares = DivideMachines(places);
  for (const RankShare& share : shares) {
    EXPECT_TRUE(share.oversubscribed);
    EXPECT_THAT(share.processors, ElementsAre(0, 1));
    EXPECT_EQ(share.threads, 1);
  }
  const std::vector<std::string> notes = ShareNotes(places, shares);
  ASSERT_THAT(notes, SizeIs(1));  // once, not for each rank
  EXPECT_THAT(notes[0], HasSubstr("3 ranks share 2 processors of m0"));
}

TEST(Share, OfTwoRanksBoundToOneProcessorIsOneThread) {
  const std::vector<Place> places = {On(kTwoSockets, {4}), On(kTwoSockets, {4}),
                                     On(kTwoSockets, Range(8, 16))};
  const std::vector<RankShare> shares = DivideMachines(places);
  EXPECT_THAT(ProcessorsOf(shares), ElementsAre("4", "4", "8-15"));
  EXPECT_TRUE(shares[0].oversubscribed);
  EXPECT_FALSE(shares[2].oversubscribed);
  EXPECT_EQ(shares[2].threads, 1);
}

TEST(Share, OnTwoMachinesIsTheSmallestForAll) {
  // Ranks go to the machines in turns; the second is smaller.
  std::vector<Place> places;
  for (int rank = 0; rank < 5; ++rank) {
    places.push_back(rank % 2 == 0 ? On(kTwoSockets, {}, "big", 96 * kGiB)
                                   : On("core:6 pu:1", {}, "small", 16 * kGiB));
  }
  const std::vector<RankShare> shares = DivideMachines(places);
  EXPECT_THAT(ProcessorsOf(shares),
              ElementsAre("0-3", "0-2", "4-7", "3-5", "8-15"));
  const int machine[] = {0, 1, 0, 1, 0}, local_rank[] = {0, 0, 1, 1, 2},
            local_size[] = {3, 2, 3, 2, 3};
  for (int rank = 0; rank < 5; ++rank) {
    const RankShare& share = shares[rank];
    EXPECT_EQ(share.machine, machine[rank]);
    EXPECT_EQ(share.machines, 2);
    EXPECT_EQ(share.local_rank, local_rank[rank]);
    EXPECT_EQ(share.local_size, local_size[rank]);
    EXPECT_EQ(share.largest_local_size, 3);
    EXPECT_EQ(share.threads, 3);
    EXPECT_EQ(share.machine_bytes, 8 * kGiB);
  }
}

// Hosts' names decide nothing: containers of one machine have their own, and
// two machines may have the same.
TEST(Share, TellsMachinesByTheirKernelsNotByTheirNames) {
  std::vector<Place> places(2, On(kTwoSockets));
  places[1].host = "container";
  EXPECT_EQ(DivideMachines(places)[1].local_size, 2);
  places[1].host = places[0].host;
  places[1].machine = "m1";
  EXPECT_EQ(DivideMachines(places)[1].local_size, 1);
}

TEST(Share, OfAControlGroupsMemoryIsForThoseWhoAreInIt) {
  std::vector<Place> places(4, On(kTwoSockets));
  for (int rank = 0; rank < 4; ++rank) {
    places[rank].memory.push_back({"job", 40 * kGiB});
    places[rank].memory.push_back({absl::StrCat("task", rank), 12 * kGiB});
  }
  EXPECT_EQ(DivideMachines(places)[0].machine_bytes, 10 * kGiB);
  places[2].memory.back().bytes = 9 * kGiB;
  for (const RankShare& share : DivideMachines(places)) {
    EXPECT_EQ(share.machine_bytes, 9 * kGiB);
  }
}

}  // namespace
}  // namespace castor
