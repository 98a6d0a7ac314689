#include "base/lock_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using Outcome = LockFile::Attempt::Outcome;

class LockFileTest : public ::testing::Test {
 protected:
  TemporaryDirectory dir_;
  const std::string path_ = dir_.path() + "/lock";
};

TEST_F(LockFileTest, IsHeldByOneAndSaysByWhom) {
  LockFile::Attempt first = LockFile::TryTake(path_);
  ASSERT_EQ(first.outcome, Outcome::kTaken) << first.why;
  EXPECT_EQ(LockFile::TryTake(path_).holder_text, "");
  ASSERT_TRUE(first.lock->Write("a long name").ok());
  ASSERT_TRUE(first.lock->Write("me").ok());
  const LockFile::Attempt second = LockFile::TryTake(path_);
  EXPECT_EQ(second.outcome, Outcome::kHeld);
  EXPECT_EQ(second.lock, nullptr);
  EXPECT_EQ(second.holder_text, "me");
  // The process is known where the system tells whose a lock is.
  EXPECT_THAT(second.holder_process, AnyOf(0, getpid()));
  first.lock.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(LockFile::TryTake(path_).outcome, Outcome::kTaken);
}

TEST_F(LockFileTest, OfADeadHolderIsTakenOver) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const LockFile::Attempt attempt = LockFile::TryTake(path_);
    if (attempt.lock == nullptr || !attempt.lock->Write("dead").ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(wait_status));
  EXPECT_EQ(ReadFile(path_), "dead");
  EXPECT_EQ(LockFile::TryTake(path_).outcome, Outcome::kTaken);
}

// A directory in a lock's place was taken for a lock that somebody holds, for
// ever: what is no file has an outcome of its own.
TEST_F(LockFileTest, IsImpossibleWhereTheNameIsNoFiles) {
  const auto expect = [&](absl::StatusCode code, const std::string& why) {
    const LockFile::Attempt attempt = LockFile::TryTake(path_);
    EXPECT_EQ(attempt.outcome, Outcome::kImpossible) << why;
    EXPECT_EQ(attempt.why.code(), code) << attempt.why;
    EXPECT_THAT(std::string(attempt.why.message()), HasSubstr(why));
    std::filesystem::remove(path_);
  };
  ASSERT_EQ(mkfifo(path_.c_str(), 0666), 0);
  expect(absl::StatusCode::kInvalidArgument, "no regular file: remove it");
  std::filesystem::create_directory(path_);
  expect(absl::StatusCode::kInvalidArgument, "no regular file: remove it");
  std::filesystem::create_symlink("nowhere", path_);
  expect(absl::StatusCode::kInvalidArgument, "no regular file: remove it");
  WriteFile(dir_.path() + "/target", "x");
  std::filesystem::create_symlink("target", path_);
  expect(absl::StatusCode::kInvalidArgument, "no regular file: remove it");
  EXPECT_EQ(ReadFile(dir_.path() + "/target"), "x");
  std::filesystem::create_hard_link(dir_.path() + "/target", path_);
  expect(absl::StatusCode::kInvalidArgument, "another name, too: remove it");
  EXPECT_EQ(ReadFile(dir_.path() + "/target"), "x");
  EXPECT_EQ(LockFile::TryTake(dir_.path() + "/none/lock").why.code(),
            absl::StatusCode::kNotFound);
}

TEST_F(LockFileTest, NobodyElseMayOpenIt) {
  const LockFile::Attempt attempt = LockFile::TryTake(path_);
  ASSERT_EQ(attempt.outcome, Outcome::kTaken);
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

// Runs `fn` as a user who is nobody here, until the test ends it. False: this
// process may not do that.
class AsNobody {
 public:
  template <typename Fn>
  explicit AsNobody(Fn fn) {
    int ready[2];
    CASTOR_CHECK(pipe(ready) == 0);
    child_ = fork();
    if (child_ == 0) {
      constexpr uid_t kNobody = 65534;
      const bool is = setgid(kNobody) == 0 && setuid(kNobody) == 0 && fn();
      const char done = is ? 'y' : 'n';
      if (write(ready[1], &done, 1) != 1) _exit(1);
      pause();
    }
    char done = 'n';
    CASTOR_CHECK(read(ready[0], &done, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    is_ready_ = done == 'y';
  }
  ~AsNobody() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  bool is_ready() const { return is_ready_; }

 private:
  pid_t child_ = -1;
  bool is_ready_ = false;
};

// Whoever may read a file may lock it. A stranger's lock on a file of ours, as
// an earlier castor left them readable, holds nobody up.
TEST_F(LockFileTest, AReadersLockHoldsNobodyUp) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  chmod(dir_.path().c_str(), 0755);
  WriteFile(path_, "");
  chmod(path_.c_str(), 0644);
  const AsNobody reader([&] {
    const int fd = open(path_.c_str(), O_RDONLY);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
  });
  if (!reader.is_ready()) GTEST_SKIP() << "nobody cannot open a file here";
  const LockFile::Attempt attempt = LockFile::TryTake(path_);
  EXPECT_EQ(attempt.outcome, Outcome::kTaken) << attempt.why;
}

// In a folder that all may write to another user can put a lock there first.
TEST_F(LockFileTest, AnotherUsersLockIsNotWaitedFor) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  chmod(dir_.path().c_str(), 0777 | S_ISVTX);
  const AsNobody other([&] {
    const int fd = open(path_.c_str(), O_RDWR | O_CREAT, 0666);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
  });
  if (!other.is_ready()) GTEST_SKIP() << "nobody cannot open a file here";
  const LockFile::Attempt attempt = LockFile::TryTake(path_);
  EXPECT_EQ(attempt.outcome, Outcome::kImpossible);
  EXPECT_EQ(attempt.why.code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(LockFileTest, IsNamedTellsAFileFromItsSuccessor) {
  const int fd = open(path_.c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(IsNamed(fd, path_));
  ASSERT_EQ(unlink(path_.c_str()), 0);
  EXPECT_FALSE(IsNamed(fd, path_));
  WriteFile(path_, "another");
  EXPECT_FALSE(IsNamed(fd, path_));
  close(fd);
}

// The holder removes the file while others open it: never do two hold it.
TEST_F(LockFileTest, GoesFromOneToTheNextWithoutTwoHolders) {
  std::atomic<int> holders{0};
  std::atomic<int> turns{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (turns < 100) {
        const LockFile::Attempt attempt = LockFile::TryTake(path_);
        if (attempt.lock == nullptr) {
          EXPECT_EQ(attempt.outcome, Outcome::kHeld) << attempt.why;
          continue;
        }
        EXPECT_EQ(holders.fetch_add(1), 0);
        std::this_thread::yield();
        holders.fetch_sub(1);
        turns.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace castor
