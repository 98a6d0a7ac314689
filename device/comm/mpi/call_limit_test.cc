#include "device/comm/mpi/call_limit.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"

namespace castor {
namespace {

constexpr int64_t kLongNs = 600'000'000'000;

TEST(CallLimit, CallThatEndsInTimeEndsNothing) {
  const auto limit =
      CallLimit::Start("a test", {.rank = 0, .world_size = 2}, kLongNs);
  EXPECT_TRUE(limit.ok()) << limit.status();
}

TEST(CallLimitDeathTest, ProcessThatWaitsTooLongEndsWithALine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  unsetenv("PMIX_NAMESPACE");
  EXPECT_EXIT(
      {
        const auto limit = CallLimit::Start(
            "MPI's start", {.rank = 1, .world_size = 3}, 50'000'000);
        while (true) pause();
      },
      ::testing::ExitedWithCode(1),
      "^castor: rank 1 of 3 waited 0.05 s for the other ranks in MPI's start: "
      "which of them did not come is not known; the ranks end\n$");
}

TEST(RanksOfThisMachine, AreThoseOfTheRunThatRun) {
  EXPECT_TRUE(RanksOfThisMachine().empty());
  // A process has the environment with which it was started.
  const char* const words[] = {
      "/proc/self/exe", "--gtest_filter=RanksOfThisMachine.DISABLED_Wait",
      "--gtest_also_run_disabled_tests", nullptr};
  pid_t ranks[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank] = fork();
    if (ranks[rank] != 0) continue;
    setenv("PMIX_NAMESPACE", "a run of call_limit_test", 1);
    setenv("PMIX_RANK", rank == 0 ? "0" : "1", 1);
    execv(words[0], const_cast<char* const*>(words));
    _exit(127);
  }
  setenv("PMIX_NAMESPACE", "a run of call_limit_test", 1);
  while (RanksOfThisMachine().size() < 2) usleep(10'000);
  kill(ranks[1], SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(ranks[1], &status, WUNTRACED), ranks[1]);
  std::vector<RankProcess> found = RanksOfThisMachine();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_EQ(found[0].process, ranks[0]);
  EXPECT_FALSE(found[0].stopped);
  EXPECT_EQ(found[1].rank, 1);
  EXPECT_EQ(found[1].process, ranks[1]);
  EXPECT_TRUE(found[1].stopped);
  kill(ranks[1], SIGKILL);
  ASSERT_EQ(waitpid(ranks[1], &status, 0), ranks[1]);
  EXPECT_EQ(RanksOfThisMachine().size(), 1u);
  kill(ranks[0], SIGKILL);
  ASSERT_EQ(waitpid(ranks[0], &status, 0), ranks[0]);
  unsetenv("PMIX_NAMESPACE");
}

// The test above starts this.
TEST(RanksOfThisMachine, DISABLED_Wait) {
  while (true) pause();
}

TEST(WhoDidNotCome, IsNamedWhereThatCanBeKnown) {
  const RankProcess zero = {.rank = 0, .process = 10};
  const RankProcess one = {.rank = 1, .process = 11};
  const RankProcess two = {.rank = 2, .process = 12, .stopped = true};
  const MpiPlace here = {.rank = 0, .world_size = 4, .local_size = 4};
  EXPECT_EQ(WhoDidNotCome(here, {zero, one, two}),
            "rank 3 is not there; rank 2 (process 12) is stopped");
  EXPECT_EQ(WhoDidNotCome(here, {zero}), "ranks 1, 2, 3 are not there");
  const MpiPlace spread = {.rank = 0, .world_size = 4, .local_size = 2};
  EXPECT_EQ(WhoDidNotCome(spread, {zero}),
            "of this machine's 2 ranks only 1 are there");
  EXPECT_TRUE(absl::StrContains(WhoDidNotCome(spread, {zero, one}),
                                "of another machine"));
  EXPECT_TRUE(absl::StrContains(
      WhoDidNotCome({.rank = 0, .world_size = 2, .local_size = 2}, {zero, one}),
      "one of them hangs"));
}

}  // namespace
}  // namespace castor
