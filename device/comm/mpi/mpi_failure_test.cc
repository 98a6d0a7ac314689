// Tests what a user sees when a rank of an MPI run dies, hangs or errs: a
// message with its number, an exit status that is not 0, no process left; with
// real processes under a real mpirun.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "device/comm/mpi/mpirun_for_test.h"

namespace castor {
namespace {

// Everything must be over long before.
constexpr int kHardLimitSeconds = 60;

struct Outcome {
  int status = -1;  // of mpirun, as a shell has it
  std::string output;
  std::string left;  // processes of the run that are still there
};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Living processes with `marker` among their arguments.
std::string ProcessesWith(const std::string& marker) {
  std::string found;
  DIR* const proc = opendir("/proc");
  if (proc == nullptr) return "no /proc";
  while (const dirent* entry = readdir(proc)) {
    const std::string pid = entry->d_name;
    if (!isdigit(static_cast<unsigned char>(pid[0]))) continue;
    const std::string arguments = ReadFile("/proc/" + pid + "/cmdline");
    if (!absl::StrContains(arguments, marker)) continue;
    // One that has ended and waits for its parent has no arguments any more.
    absl::StrAppend(&found, pid, " ");
  }
  closedir(proc);
  return found;
}

std::string ScenarioProgram() {
  return absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"),
                      "/device/comm/rank_scenario");
}

Outcome RunScenario(int ranks, const std::string& scenario, int limit_ms) {
  const std::string marker =
      absl::StrCat("castor-test-", getpid(), "-", scenario);
  const std::string file = absl::StrCat(getenv("TEST_TMPDIR"), "/", marker);
  const pid_t child = fork();
  if (child == 0) {
    const int out = open(file.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    dup2(out, 1);
    dup2(out, 2);
    ExecMpirun(ranks, kHardLimitSeconds,
               {ScenarioProgram(), scenario, absl::StrCat(limit_ms), marker});
    _exit(127);
  }
  Outcome outcome;
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  outcome.status =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  // mpirun may go before the last of its ranks has.
  for (int i = 0; i < 100; ++i) {
    outcome.left = ProcessesWith(marker);
    if (outcome.left.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  outcome.output = ReadFile(file);
  return outcome;
}

void ExpectEnds(const Outcome& outcome, const std::vector<std::string>& words) {
  EXPECT_NE(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.left, "") << outcome.output;
  // It has not ended by mpirun's own limit.
  EXPECT_FALSE(
      absl::StrContains(outcome.output, "time limit for job execution"))
      << outcome.output;
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

TEST(MpiFailure, NothingIsSaidWhereAllGoesWell) {
  for (const int ranks : {1, 2, 4}) {
    const Outcome outcome = RunScenario(ranks, "well", 30'000);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(outcome.left, "");
    EXPECT_EQ(Count(outcome.output, ": well"), ranks) << outcome.output;
    EXPECT_FALSE(absl::StrContains(outcome.output, "castor:"));
  }
}

TEST(MpiFailure, KilledRankIsNamed) {
  // The time limit is long: something else ends the run.
  const Outcome outcome = RunScenario(3, "kill_2", 50'000);
  ExpectEnds(outcome, {"castor: rank 2 (process "});
  EXPECT_EQ(Count(outcome.output, "castor: rank 2"), 1) << outcome.output;
}

TEST(MpiFailure, KilledFirstRankIsNamed) {
  const Outcome outcome = RunScenario(3, "kill_0", 50'000);
  ExpectEnds(outcome, {"castor: rank 0 (process "});
  EXPECT_EQ(Count(outcome.output, "castor: rank 0"), 1) << outcome.output;
}

TEST(MpiFailure, CrashedRankIsNamed) {
  ExpectEnds(RunScenario(2, "segv", 50'000), {"castor: rank 1 (process "});
}

TEST(MpiFailure, RankThatExitsQuietlyIsNamed) {
  ExpectEnds(RunScenario(4, "exit", 50'000), {"castor: rank 3 (process "});
}

TEST(MpiFailure, StoppedRankIsReportedAfterTheTimeLimit) {
  ExpectEnds(RunScenario(3, "stop_2", 1500),
             {"rank 2 did not join rank ", "within 1.5 s",
              "last collective of each rank", "gather of a chunk"});
  // The same if it is the rank that speaks for all.
  ExpectEnds(RunScenario(3, "stop_0", 1500),
             {"castor: rank 1 of 3, in ", "rank 0 did not join rank ",
              "within 1.5 s", "last collective of each rank"});
}

TEST(MpiFailure, DifferentCollectivesAreBothNamed) {
  ExpectEnds(
      RunScenario(2, "diverge", 50'000),
      {"the ranks call different collectives", "\"gather of a chunk\" (#11)",
       "\"gather of another chunk\" (#11)"});
}

TEST(MpiFailure, RankThatLeavesEarlyIsNamed) {
  ExpectEnds(RunScenario(3, "leave", 50'000),
             {"rank 2", "in leaving the group"});
}

TEST(MpiFailure, ReasonOfOneRankReachesTheOthers) {
  const Outcome outcome = RunScenario(3, "fail", 50'000);
  ExpectEnds(outcome, {"rank 2 failed: no space left on disk"});
}

TEST(MpiFailure, EndOfTheLauncherEndsTheRanks) {
  for (const char* scenario : {"sigterm", "no_launcher"}) {
    const Outcome outcome = RunScenario(2, scenario, 50'000);
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(outcome.left, "") << scenario;
  }
}

}  // namespace
}  // namespace castor
