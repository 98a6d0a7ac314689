// Tests what a user sees when a rank of a run without MPI dies, hangs or errs:
// a message with its number, exit statuses that are not 0, within seconds and
// without a launcher's help; with real processes and torchrun's variables.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/sanitizers.h"
#include "device/comm/socket.h"

namespace castor {
namespace {

// Everything must be over long before.
constexpr int kHardLimitMs = 60'000;

struct Outcome {
  std::vector<int> codes;  // by rank, as a shell has them; -1: it did not end
  std::string output;      // of all
};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Starts all ranks and waits for them. A rank that
// stopped itself is killed at the end.
Outcome RunScenario(int world_size, const std::string& scenario, int limit_ms) {
  const std::string program =
      absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"),
                   "/device/comm/rank_scenario");
  const std::string file = absl::StrCat(getenv("TEST_TMPDIR"), "/", scenario);
  auto listener = ListenAt(Loopback(), 16);
  EXPECT_TRUE(listener.ok()) << listener.status();
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto set = [](const char* name, const std::string& value) {
      setenv(name, value.c_str(), 1);
    };
    set("CASTOR_RUN_ID", scenario);
    set("RANK", absl::StrCat(rank));
    set("WORLD_SIZE", absl::StrCat(world_size));
    set("LOCAL_RANK", absl::StrCat(rank));
    set("LOCAL_WORLD_SIZE", absl::StrCat(world_size));
    set("MASTER_ADDR", "127.0.0.1");
    set("MASTER_PORT", absl::StrCat(LocalAddress(listener->fd()).port()));
    if (rank == 0) {
      set("CASTOR_MASTER_SOCKET", absl::StrCat(dup(listener->fd())));
    }
    if (absl::StartsWith(scenario, "jump_")) {
      set("LD_PRELOAD",
          absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"),
                       "/device/comm/libjumping_clock_for_test.so"));
    }
    const int out = open(file.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    dup2(out, 1);
    dup2(out, 2);
    execl(program.c_str(), program.c_str(), scenario.c_str(),
          absl::StrCat(limit_ms).c_str(), "marker", nullptr);
    _exit(127);
  }
  listener->Reset();
  Outcome outcome;
  outcome.codes.assign(world_size, -1);
  int left = world_size - (absl::StrContains(scenario, "stop_") ? 1 : 0);
  for (int ms = 0; ms < kHardLimitMs && left > 0; ms += 10) {
    for (int rank = 0; rank < world_size; ++rank) {
      int status = 0;
      if (outcome.codes[rank] >= 0 ||
          waitpid(ranks[rank], &status, WNOHANG) <= 0) {
        continue;
      }
      outcome.codes[rank] =
          WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      --left;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (int rank = 0; rank < world_size; ++rank) {
    if (outcome.codes[rank] >= 0) continue;
    kill(ranks[rank], SIGKILL);
    waitpid(ranks[rank], nullptr, 0);
  }
  outcome.output = ReadFile(file);
  return outcome;
}

void ExpectSaid(const Outcome& outcome, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(outcome.output, word))
        << "no \"" << word << "\" in:\n"
        << outcome.output;
  }
}

int Count(const std::string& text, const std::string& word) {
  return static_cast<int>(
             std::vector<std::string>(absl::StrSplit(text, word)).size()) -
         1;
}

using Codes = std::vector<int>;

TEST(TcpFailure, NothingIsSaidWhereAllGoesWell) {
  const Outcome outcome = RunScenario(4, "well", 30'000);
  EXPECT_EQ(outcome.codes, (Codes{0, 0, 0, 0})) << outcome.output;
  EXPECT_EQ(Count(outcome.output, ": well"), 4) << outcome.output;
  EXPECT_FALSE(absl::StrContains(outcome.output, "castor:"));
}

TEST(TcpFailure, KilledRankIsNamedToAll) {
  // The time limit is long: something else ends the run.
  for (const char* scenario : {"kill_2", "kill_between"}) {
    const Outcome outcome = RunScenario(3, scenario, 50'000);
    EXPECT_EQ(outcome.codes, (Codes{3, 3, 128 + 9})) << outcome.output;
    EXPECT_EQ(Count(outcome.output, "castor: rank 2 (process "), 1)
        << outcome.output;
    ExpectSaid(outcome, {"rank 0: UNAVAILABLE: rank 0 of 3, in ",
                         "rank 1: UNAVAILABLE: rank 1 of 3, in ", " died"});
    EXPECT_FALSE(absl::StrContains(outcome.output, " broke: "))
        << outcome.output;
  }
}

TEST(TcpFailure, KilledFirstRankIsNamedToAll) {
  const Outcome outcome = RunScenario(3, "kill_0", 50'000);
  EXPECT_EQ(outcome.codes, (Codes{128 + 9, 3, 3})) << outcome.output;
  EXPECT_EQ(Count(outcome.output, "castor: rank 0 (process "), 1)
      << outcome.output;
}

TEST(TcpFailure, RankThatExitsQuietlyIsNamed) {
  const Outcome outcome = RunScenario(2, "exit", 50'000);
  EXPECT_EQ(outcome.codes, (Codes{3, 0})) << outcome.output;
  ExpectSaid(outcome, {"castor: rank 1 (process "});
}

TEST(TcpFailure, StoppedRankIsReportedAfterTheTimeLimit) {
  for (int stopped = 0; stopped < 3; ++stopped) {
    const Outcome outcome =
        RunScenario(3, absl::StrCat("stop_", stopped), 2000);
    Codes codes = {3, 3, 3};
    codes[stopped] = -1;
    EXPECT_EQ(outcome.codes, codes) << outcome.output;
    ExpectSaid(outcome, {absl::StrCat("rank ", stopped, " did not join rank "),
                         "within 2 s", "last collective of each rank",
                         "gather of a chunk"});
    // Rank 0 speaks for all, in whatever way its program does. Where it hangs,
    // the first of the others does, and nobody else.
    EXPECT_EQ(Count(outcome.output, "castor: "), stopped == 0 ? 1 : 0)
        << outcome.output;
    EXPECT_EQ(Count(outcome.output, "castor: rank 1 of 3, in "),
              stopped == 0 ? 1 : 0)
        << outcome.output;
  }
}

TEST(TcpFailure, FirstRankThatIsThereSpeaksThoughItCameLast) {
  // Rank 2 waits for rank 0, which has stopped, and for rank 1, which is late.
  const Outcome outcome = RunScenario(3, "stop_0_late_1", 3000);
  EXPECT_EQ(outcome.codes, (Codes{-1, 3, 3})) << outcome.output;
  EXPECT_EQ(Count(outcome.output, "castor: "), 1) << outcome.output;
  ExpectSaid(outcome,
             {"castor: rank 1 of 3, in ", "rank 0 did not join rank "});
}

TEST(TcpFailure, SlowRankOnlyCostsTime) {
  for (int slow = 0; slow < 3; ++slow) {
    const Outcome outcome = RunScenario(3, absl::StrCat("slow_", slow), 30'000);
    EXPECT_EQ(outcome.codes, (Codes{0, 0, 0})) << outcome.output;
  }
}

TEST(TcpFailure, ClocksThatJumpChangeNoLimit) {
#if CASTOR_ADDRESS_SANITIZER || CASTOR_THREAD_SANITIZER
  GTEST_SKIP() << "a sanitizer's own library must be the first";
#endif
  const Outcome well = RunScenario(3, "jump_well", 30'000);
  EXPECT_EQ(well.codes, (Codes{0, 0, 0})) << well.output;
  const Outcome outcome = RunScenario(3, "jump_stop_2", 1000);
  EXPECT_EQ(outcome.codes, (Codes{3, 3, -1})) << outcome.output;
  ExpectSaid(outcome, {"rank 2 did not join rank ", "within 1 s"});
}

TEST(TcpFailure, DifferentCollectivesAreBothNamed) {
  const Outcome outcome = RunScenario(2, "diverge", 50'000);
  EXPECT_EQ(outcome.codes, (Codes{3, 3})) << outcome.output;
  ExpectSaid(outcome, {"the ranks call different collectives",
                       "\"gather of a chunk\" (#11)",
                       "\"gather of another chunk\" (#11)"});
}

TEST(TcpFailure, RankThatLeavesEarlyIsNamed) {
  const Outcome outcome = RunScenario(3, "leave", 50'000);
  EXPECT_EQ(outcome.codes[0], 3) << outcome.output;
  EXPECT_EQ(outcome.codes[1], 3) << outcome.output;
  ExpectSaid(outcome, {"rank 2", "in leaving the group"});
}

TEST(TcpFailure, ReasonOfOneRankReachesTheOthers) {
  const Outcome outcome = RunScenario(3, "fail", 50'000);
  EXPECT_EQ(outcome.codes, (Codes{3, 3, 3})) << outcome.output;
  EXPECT_EQ(Count(outcome.output, "rank 2 failed: no space left on disk"), 3)
      << outcome.output;
}

}  // namespace
}  // namespace castor
