// A message of more than 2 GiB, which MPI's own counts cannot express, between
// two processes. Needs 4.1 GiB of memory: tagged "manual".
#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "device/comm/exchange_communicator.h"
#include "device/comm/mpi/mpi_transport.h"
#include "device/comm/mpi/mpirun_for_test.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

TEST(MpiLarge, MessageOfMoreThanTwoGibibytesArrives) {
  auto device = HostDevice::Create({.memory_bytes = 0});
  ASSERT_TRUE(device.ok()) << device.status();
  auto transport = JoinMpi({});
  ASSERT_TRUE(transport.ok()) << transport.status();
  auto comm =
      ExchangeCommunicator::Create(device->get(), *std::move(transport), {});
  ASSERT_TRUE(comm.ok()) << comm.status();
  constexpr int64_t kWords = (int64_t{1} << 28) + 12'345;
  std::vector<uint64_t> data(kWords);
  const auto value = [](int64_t i) { return i * 0x9e3779b97f4a7c15u; };
  if ((*comm)->rank() == 0) {
    for (int64_t i = 0; i < kWords; ++i) data[i] = value(i);
  }
  const auto fence = (*comm)->Broadcast("large", 0, 0, data.data(), kWords * 8);
  ASSERT_TRUE(fence.ok()) << fence.status();
  const absl::Status status = (*device)->Synchronize(*fence);
  ASSERT_TRUE(status.ok()) << status;
  int64_t wrong = 0;
  for (int64_t i = 0; i < kWords; ++i) wrong += data[i] != value(i);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace castor

// Open MPI leaks on its own account.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

int main(int argc, char** argv) {
  if (castor::UnderMpirun()) {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  }
  char self[PATH_MAX + 1] = "";
  if (readlink("/proc/self/exe", self, PATH_MAX) < 0) return 1;
  castor::ExecMpirun(2, 600, {self});
  std::perror("mpirun");
  return 1;
}
