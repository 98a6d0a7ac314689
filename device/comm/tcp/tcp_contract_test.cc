// The contract of a communicator (communicator_contract.h) over TCP, with ranks
// as threads; among processes it is tcp_process_test's.
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "device/comm/exchange_communicator.h"
#include "device/comm/tcp/tcp_ranks_for_test.h"
#include "device/comm/testing/communicator_contract.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

class TcpRanks final : public TestedRanks {
 public:
  TcpRanks(int world_size, int family)
      : world_size_(world_size), family_(family) {}
  int world_size() const override { return world_size_; }
  void Run(const std::function<void(Communicator&)>& body) override {
    RunTcpRanks(world_size_, family_, {},
                [&](std::unique_ptr<Transport> transport) {
                  auto device = HostDevice::Create(
                      {.memory_bytes = 1 << 20, .compute_threads = 2});
                  ASSERT_TRUE(device.ok()) << device.status();
                  auto communicator = ExchangeCommunicator::Create(
                      device->get(), std::move(transport), {});
                  ASSERT_TRUE(communicator.ok()) << communicator.status();
                  body(**communicator);
                });
  }

 private:
  const int world_size_;
  const int family_;
};

std::vector<TestedRanksFactory> Factories() {
  std::vector<TestedRanksFactory> factories;
  // Alone, and with more than one other; a transport sees no other difference.
  for (const int n : {1, 3}) {
    factories.push_back({absl::StrCat("tcp", n), [n] {
                           return std::make_shared<TcpRanks>(n, AF_INET);
                         }});
  }
  return factories;
}

INSTANTIATE_TEST_SUITE_P(Tcp, CommunicatorContract,
                         testing::ValuesIn(Factories()), ContractName);

}  // namespace
}  // namespace castor
