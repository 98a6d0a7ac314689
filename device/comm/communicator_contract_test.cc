// The contract of a communicator (communicator_contract.h), for a rank that is
// alone and for ranks as threads.
#include "device/comm/testing/communicator_contract.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "device/comm/single_rank.h"
#include "device/comm/thread_ranks.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

std::unique_ptr<Device> NewDevice() {
  auto device =
      HostDevice::Create({.memory_bytes = 1 << 20, .compute_threads = 2});
  EXPECT_TRUE(device.ok()) << device.status();
  return device.ok() ? *std::move(device) : nullptr;
}

class OneRank final : public TestedRanks {
 public:
  int world_size() const override { return 1; }
  void Run(const std::function<void(Communicator&)>& body) override {
    const std::unique_ptr<Device> device = NewDevice();
    auto communicator = MakeSingleRank(device.get());
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    body(**communicator);
  }
};

class ThreadRanks final : public TestedRanks {
 public:
  explicit ThreadRanks(int world_size) : world_size_(world_size) {}
  int world_size() const override { return world_size_; }
  void Run(const std::function<void(Communicator&)>& body) override {
    const std::shared_ptr<ThreadGroup> group = ThreadGroup::Create(world_size_);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < world_size_; ++rank) {
      ranks.emplace_back([&, rank] {
        const std::unique_ptr<Device> device = NewDevice();
        auto communicator = MakeThreadRank(group, rank, device.get(), {});
        ASSERT_TRUE(communicator.ok()) << communicator.status();
        EXPECT_EQ((*communicator)->rank(), rank);
        body(**communicator);
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }

 private:
  const int world_size_;
};

std::vector<TestedRanksFactory> Factories() {
  std::vector<TestedRanksFactory> factories = {
      {"single", [] { return std::make_shared<OneRank>(); }}};
  for (int n = 1; n <= 4; ++n) {
    factories.push_back({absl::StrCat("threads", n),
                         [n] { return std::make_shared<ThreadRanks>(n); }});
  }
  return factories;
}

INSTANTIATE_TEST_SUITE_P(InOneProcess, CommunicatorContract,
                         testing::ValuesIn(Factories()), ContractName);

}  // namespace
}  // namespace castor
