// The contract of a communicator (communicator_contract.h) among processes.
//
// Started as a test, the program becomes `mpirun -np N` of itself (N from the
// first argument). Every rank runs all tests in the same order; after each the
// ranks agree on whether it failed anywhere. Rank 0 writes the report.
#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/comm/exchange_communicator.h"
#include "device/comm/mpi/mpi_transport.h"
#include "device/comm/mpi/mpirun_for_test.h"
#include "device/comm/testing/communicator_contract.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

constexpr int kLimitSeconds = 200;

// This process's rank: MPI can be initialised once only.
struct Process {
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> communicator;
};
Process& ThisProcess() {
  static Process process;
  return process;
}

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorContract,
                         testing::Values(TestedRanksFactory{
                             "processes",
                             [] {
                               return std::make_shared<OneProcessOfSeveral>(
                                   std::atoi(getenv("OMPI_COMM_WORLD_SIZE")),
                                   ThisProcess().communicator.get());
                             }}),
                         ContractName);

TEST(MpiTransport, RefusesASecondOne) {
  EXPECT_EQ(JoinMpi({}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(MpiTransport, RefusesPiecesThatAreNone) {
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, int64_t{1} << 31}) {
    MpiOptions options;
    options.piece_bytes = bytes;
    EXPECT_EQ(JoinMpi(options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

int RunRank(int argc, char** argv) {
  if (std::string(getenv("OMPI_COMM_WORLD_RANK")) != "0") {
    unsetenv("XML_OUTPUT_FILE");
    unsetenv("GTEST_OUTPUT");
  }
  testing::InitGoogleTest(&argc, argv);
  auto device =
      HostDevice::Create({.memory_bytes = 1 << 20, .compute_threads = 2});
  if (!device.ok()) return 1;
  ThisProcess().device = *std::move(device);
  MpiOptions options;
  // Second argument: pieces so small that most messages are cut.
  if (argc > 2) options.piece_bytes = std::atoll(argv[2]);
  auto transport = JoinMpi(options);
  if (!transport.ok()) {
    std::fprintf(stderr, "%s\n", transport.status().ToString().c_str());
    return 1;
  }
  auto communicator = ExchangeCommunicator::Create(
      ThisProcess().device.get(), *std::move(transport),
      {.time_limit_ns = 60'000'000'000});
  if (!communicator.ok()) {
    std::fprintf(stderr, "%s\n", communicator.status().ToString().c_str());
    return 1;
  }
  ThisProcess().communicator = *std::move(communicator);
  const int result = RUN_ALL_TESTS();
  ThisProcess().communicator.reset();
  return result;
}

int Main(int argc, char** argv) {
  if (UnderMpirun()) return RunRank(argc, argv);
  char self[PATH_MAX + 1] = "";
  if (argc < 2 || readlink("/proc/self/exe", self, PATH_MAX) < 0) {
    std::fprintf(stderr, "usage: %s RANKS [PIECE_BYTES]\n", argv[0]);
    return 2;
  }
  std::vector<std::string> program = {self};
  program.insert(program.end(), argv + 1, argv + argc);
  ExecMpirun(std::atoi(argv[1]), kLimitSeconds, program);
  std::perror("mpirun");
  return 1;
}

}  // namespace
}  // namespace castor

// Open MPI leaks on its own account.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

int main(int argc, char** argv) { return castor::Main(argc, argv); }
