#include "base/lock_wait.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/host_name.h"
#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Outcome = LockFile::Attempt::Outcome;

constexpr double kLong_s = 3600;

class LockWaitTest : public ::testing::Test {
 protected:
  LockFile::Attempt Take(const std::string& text) {
    LockFile::Attempt attempt = LockFile::TryTake(path_);
    EXPECT_EQ(attempt.outcome, Outcome::kTaken);
    EXPECT_TRUE(attempt.lock->Write(text).ok());
    return attempt;
  }
  TemporaryDirectory dir_;
  const std::string path_ = dir_.path() + "/lock";
};

TEST_F(LockWaitTest, SaysForWhomItWaitsAndTakesWhatIsFreed) {
  LockFile::Attempt held = Take(LockHolderText("0123"));
  std::vector<std::string> said;
  const LockFile::Attempt attempt =
      AwaitLock(path_, {.timeout_seconds = kLong_s,
                        .say =
                            [&](absl::string_view line) {
                              said.push_back(std::string(line));
                              held.lock.reset();
                            },
                        .what = "the door is shut"});
  EXPECT_EQ(attempt.outcome, Outcome::kTaken);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0],
            absl::StrCat("the door is shut: waiting for process ", getpid(),
                         " on host \"", HostName(),
                         "\", run \"0123\", 0 s so far, at most 3600 s"));
}

TEST_F(LockWaitTest, EndsAfterItsTime) {
  const LockFile::Attempt held = Take(LockHolderText(""));
  EXPECT_EQ(AwaitLock(path_, {}).outcome, Outcome::kHeld);
  EXPECT_EQ(AwaitLock(path_, {.timeout_seconds = 0.1}).outcome, Outcome::kHeld);
}

// A lock outlives its holder in a process that it forked: nobody will give it
// back.
TEST_F(LockWaitTest, DoesNotWaitForAHolderThatHasEnded) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
  const LockFile::Attempt held = Take(absl::StrCat(
      "{\"host\": \"", HostName(), "\", \"process\": ", gone, "}"));
  const LockFile::Attempt attempt =
      AwaitLock(path_, {.timeout_seconds = kLong_s});
  EXPECT_EQ(attempt.outcome, Outcome::kHeld);
  EXPECT_TRUE(HolderOf(attempt).has_ended);
}

TEST_F(LockWaitTest, KnowsNothingOfProcessesElsewhere) {
  const LockFile::Attempt held =
      Take("{\"host\": \"far\", \"process\": 2147483647}");
  const LockHolder holder = HolderOf(LockFile::TryTake(path_));
  EXPECT_EQ(holder.name, "process 2147483647 on host \"far\"");
  EXPECT_FALSE(holder.has_ended);
}

TEST_F(LockWaitTest, ADirectoryIsNoHolder) {
  std::filesystem::create_directory(path_);
  EXPECT_EQ(AwaitLock(path_, {.timeout_seconds = kLong_s}).outcome,
            Outcome::kImpossible);
}

}  // namespace
}  // namespace castor
