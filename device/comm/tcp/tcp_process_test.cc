// The contract of a communicator (communicator_contract.h) over TCP among three
// processes.
//
// The test's own process is rank 0 and starts the others, as copies of itself
// with torchrun's variables. All run the same tests in the same order; after
// each they agree on whether it failed anywhere. Rank 0 writes the report.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "device/comm/exchange_communicator.h"
#include "device/comm/launch_env.h"
#include "device/comm/socket.h"
#include "device/comm/tcp/tcp_transport.h"
#include "device/comm/testing/communicator_contract.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

constexpr int kWorldSize = 3;

struct Process {
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> communicator;
};
Process& ThisProcess() {
  static Process process;
  return process;
}

INSTANTIATE_TEST_SUITE_P(Tcp, CommunicatorContract,
                         testing::Values(TestedRanksFactory{
                             "processes",
                             [] {
                               return std::make_shared<OneProcessOfSeveral>(
                                   kWorldSize,
                                   ThisProcess().communicator.get());
                             }}),
                         ContractName);

void SetRank(int rank) { setenv("RANK", std::to_string(rank).c_str(), 1); }

// Ranks 1 and on. This process goes on as rank 0.
std::vector<pid_t> StartOthers(char** argv) {
  auto listener = ListenAt(Loopback(), 16);
  if (!listener.ok()) return {};
  setenv("CASTOR_RUN_ID", std::to_string(getpid()).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(kWorldSize).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT",
         std::to_string(LocalAddress(listener->fd()).port()).c_str(), 1);
  std::vector<pid_t> others;
  for (int rank = 1; rank < kWorldSize; ++rank) {
    others.push_back(fork());
    if (others.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    SetRank(rank);
    unsetenv("XML_OUTPUT_FILE");
    unsetenv("GTEST_OUTPUT");
    // Two reports in one would be hard to read.
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    execv("/proc/self/exe", argv);
    _exit(127);
  }
  SetRank(0);
  setenv("CASTOR_MASTER_SOCKET", std::to_string(listener->Release()).c_str(),
         1);
  return others;
}

int Main(int argc, char** argv) {
  std::vector<pid_t> others;
  if (getenv("CASTOR_RUN_ID") == nullptr) others = StartOthers(argv);
  testing::InitGoogleTest(&argc, argv);
  const absl::StatusOr<LaunchEnv> launch = DetectLaunch(CurrentEnvironment());
  auto device =
      HostDevice::Create({.memory_bytes = 1 << 20, .compute_threads = 2});
  auto transport = launch.ok() ? JoinTcp(*launch, {}) : launch.status();
  if (!transport.ok() || !device.ok()) {
    std::fprintf(stderr, "%s\n", transport.status().ToString().c_str());
    return 1;
  }
  ThisProcess().device = *std::move(device);
  auto communicator = ExchangeCommunicator::Create(
      ThisProcess().device.get(), *std::move(transport),
      {.time_limit_ns = 60'000'000'000});
  if (!communicator.ok()) return 1;
  ThisProcess().communicator = *std::move(communicator);
  int result = RUN_ALL_TESTS();
  ThisProcess().communicator.reset();
  for (const pid_t other : others) {
    int status = 0;
    if (waitpid(other, &status, 0) != other || status != 0) {
      std::fprintf(stderr, "another rank ended with %d\n", status);
      result = 1;
    }
  }
  return result;
}

}  // namespace
}  // namespace castor

int main(int argc, char** argv) { return castor::Main(argc, argv); }
