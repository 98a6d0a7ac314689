#include "device/topology/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <thread>

#include "base/thread_pool.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(Topology, OfTwoPackagesNamesCoresNodesAndProcessors) {
  const auto topology =
      Topology::Synthetic("package:2 [numa(memory=64GB)] core:4 pu:2");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->packages(), 2);
  EXPECT_EQ(topology->cores(), 8);
  EXPECT_EQ(topology->processors(), 16);
  const auto place = topology->PlaceOf({});
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->machine_processors, 16);
  EXPECT_EQ(place->allowed_processors, 16);
  ASSERT_THAT(place->cores, SizeIs(8));
  for (int core = 0; core < 8; ++core) {
    EXPECT_EQ(place->cores[core].core, core);
    EXPECT_EQ(place->cores[core].node, core / 4);
    EXPECT_THAT(place->cores[core].processors,
                ElementsAre(2 * core, 2 * core + 1));
  }
  ASSERT_THAT(place->nodes, SizeIs(2));
  EXPECT_EQ(place->nodes[1].node, 1);
  EXPECT_EQ(place->nodes[1].memory_bytes, 64'000'000'000);
}

TEST(Topology, PlaceOfABoundProcessHasItsProcessorsAlone) {
  const auto topology = Topology::Synthetic("numa:2 core:4 pu:2");
  ASSERT_TRUE(topology.ok()) << topology.status();
  const auto place = topology->PlaceOf({1, 6, 7, 10});
  ASSERT_TRUE(place.ok()) << place.status();
  ASSERT_THAT(place->cores, SizeIs(3));
  EXPECT_EQ(place->cores[0], (PlaceCore{0, 0, {1}}));
  EXPECT_EQ(place->cores[1], (PlaceCore{3, 0, {6, 7}}));
  EXPECT_EQ(place->cores[2], (PlaceCore{5, 1, {10}}));
  EXPECT_EQ(place->allowed_processors, 16);
  EXPECT_FALSE(topology->PlaceOf({99}).ok());
}

TEST(Topology, SomeoneElsesProcessorNumbersAreKept) {
  // The kernel numbers hyperthreads like this: siblings are far apart.
  const auto topology =
      Topology::Synthetic("numa:1 core:2 pu:2(indexes=0,2,1,3)");
  ASSERT_TRUE(topology.ok()) << topology.status();
  const auto place = topology->PlaceOf({});
  ASSERT_TRUE(place.ok()) << place.status();
  ASSERT_THAT(place->cores, SizeIs(2));
  EXPECT_THAT(place->cores[0].processors, ElementsAre(0, 2));
  EXPECT_THAT(place->cores[1].processors, ElementsAre(1, 3));
}

TEST(Topology, OfNothingIsRefused) {
  EXPECT_FALSE(Topology::Synthetic("no such thing").ok());
}

TEST(PlaceOfThisProcess, IsWhereTheSystemLetsItRun) {
  const auto topology = Topology::OfThisMachine();
  ASSERT_TRUE(topology.ok()) << topology.status();
  const auto place = PlaceOfThisProcess(*topology);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(static_cast<int>(place->processors().size()),
            AvailableProcessors());
  EXPECT_LE(place->allowed_processors, place->machine_processors);
  EXPECT_EQ(place->memory, MemoryLimits());
  const auto again = ParsePlace(PlaceText(*place));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *place);
}

TEST(Bind, HoldsForThisProcessAndItsThreads) {
  const auto topology = Topology::OfThisMachine();
  ASSERT_TRUE(topology.ok()) << topology.status();
  const ProcessorSet before = topology->Binding();
  ASSERT_FALSE(before.empty());
  const ProcessorSet one = {before.back()};
  const absl::Status bound = topology->Bind(one);
  ASSERT_TRUE(bound.ok()) << bound;
  EXPECT_EQ(topology->Binding(), one);
  int seen = -1, available = 0;
  std::thread([&] {
    seen = sched_getcpu();
    available = AvailableProcessors();
  }).join();
  EXPECT_EQ(seen, one[0]);
  EXPECT_EQ(available, 1);
  EXPECT_TRUE(topology->Bind(before).ok());
  EXPECT_EQ(topology->Binding(), before);
  EXPECT_FALSE(topology->Bind({1 << 19}).ok());
}

}  // namespace
}  // namespace castor
