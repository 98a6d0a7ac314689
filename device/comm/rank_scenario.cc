// One rank of a run in which something happens; started by mpi_failure_test
// under mpirun and by tcp_failure_test with torchrun's variables. Prints "rank
// R: STATUS" to standard error and ends with 3 when the communicator failed,
// with 0 when all went well.
//
//   rank_scenario SCENARIO TIME_LIMIT_MS MARKER
//
// "jump_SCENARIO": under jumping_clock_for_test.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "device/comm/launch_env.h"
#include "device/comm/rank_group.h"
#include "device/comm/single_rank.h"
#include "device/host/host_device.h"

namespace castor {
namespace {

int Run(std::string scenario, int64_t limit_ms) {
  if (scenario.rfind("jump_", 0) == 0) {
    // This makes sure that the clock jumps indeed.
    const time_t before = time(nullptr);
    if (std::llabs(time(nullptr) - before) < 3600) return 9;
    scenario.erase(0, 5);
  }
  auto device = HostDevice::Create({.memory_bytes = 1 << 20});
  if (!device.ok()) return 1;
  const absl::StatusOr<LaunchEnv> launch = DetectLaunch(CurrentEnvironment());
  auto group =
      launch.ok()
          ? RankGroup::Join(*launch, {.time_limit_ns = limit_ms * 1'000'000})
          : launch.status();
  auto made = !group.ok() ? group.status()
              : (*group)->world_size() == 1
                  ? MakeSingleRank(device->get())
                  : (*group)->MakeCommunicator(device->get());
  if (!made.ok()) {
    std::fprintf(stderr, "no rank: %s\n", made.status().ToString().c_str());
    return 1;
  }
  std::unique_ptr<Communicator> comm = *std::move(made);
  const int rank = comm->rank();
  const int last = comm->world_size() - 1;
  constexpr int64_t kBytes = 200'000;
  std::vector<char> mine(kBytes, 'x'), all(kBytes * comm->world_size());
  absl::Status status;
  const bool well = scenario == "well" || scenario.rfind("slow_", 0) == 0;
  const int rounds = well ? 20 : 1'000'000;
  for (int i = 0; i < rounds && status.ok(); ++i) {
    if (i == 10) {
      if (scenario == "forever" && rank == 0) {
        std::fprintf(stderr, "under way\n");
      }
      // "stop_0": rank 0 stops, and so on.
      if (scenario == absl::StrCat("stop_", rank)) raise(SIGSTOP);
      if (scenario == "stop_0_late_1" && rank == 0) raise(SIGSTOP);
      if (scenario == "stop_0_late_1" && rank == 1) usleep(700'000);
      if (scenario == absl::StrCat("kill_", rank)) raise(SIGKILL);
      if (scenario == absl::StrCat("slow_", rank)) usleep(300'000);
      if (scenario == "exit" && rank == last) _exit(0);
      if (scenario == "segv" && rank == last) raise(SIGSEGV);
      if (scenario == "leave" && rank == last) break;
      if (scenario == "fail" && rank == last) {
        comm->Fail(absl::ResourceExhaustedError("no space left on disk"));
      }
      if (scenario == "kill_between") {
        if (rank == last) raise(SIGKILL);
        // Nobody calls anything; the news comes all the same.
        while (comm->failure().ok()) usleep(1000);
      }
      if (scenario == "sigterm" && rank == 0) kill(getppid(), SIGTERM);
      if (scenario == "no_launcher" && rank == 0) kill(getppid(), SIGKILL);
    }
    const bool other = scenario == "diverge" && i == 10 && rank == last;
    const absl::StatusOr<Fence> fence =
        comm->AllGather(other ? "gather of another chunk" : "gather of a chunk",
                        0, mine.data(), all.data(), kBytes);
    status = fence.ok() ? (*device)->Synchronize(*fence) : fence.status();
  }
  if (status.ok()) status = comm->failure();
  if (!status.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
    // mpirun of Open MPI 5 loses what the others are saying when one rank ends.
    usleep(500'000);
  }
  comm.reset();
  if (status.ok()) std::fprintf(stderr, "rank %d: well\n", rank);
  return status.ok() ? 0 : 3;
}

}  // namespace
}  // namespace castor

// Open MPI leaks on its own account.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return castor::Run(argv[1], std::atoll(argv[2]));
}
