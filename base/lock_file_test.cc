#include "base/lock_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

class LockFileTest : public ::testing::Test {
 protected:
  TemporaryDirectory dir_;
  const std::string path_ = dir_.path() + "/lock";
};

TEST_F(LockFileTest, IsHeldByOneAndSaysByWhom) {
  auto first = LockFile::Take(path_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(LockFile::Take(path_).status().message(), "");
  ASSERT_TRUE((*first)->Write("a long name").ok());
  ASSERT_TRUE((*first)->Write("me").ok());
  const auto second = LockFile::Take(path_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(second.status().message(), "me");
  first->reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_TRUE(LockFile::Take(path_).ok());
}

TEST_F(LockFileTest, OfADeadHolderIsTakenOver) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = LockFile::Take(path_);
    if (!lock.ok() || !(*lock)->Write("dead").ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(wait_status));
  EXPECT_EQ(ReadFile(path_), "dead");
  EXPECT_TRUE(LockFile::Take(path_).ok());
}

TEST_F(LockFileTest, IsNoPipeAndNoLink) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0666), 0);
  EXPECT_THAT(std::string(LockFile::Take(path_).status().message()),
              HasSubstr("no regular file"));
  ASSERT_EQ(unlink(path_.c_str()), 0);
  WriteFile(dir_.path() + "/target", "x");
  std::filesystem::create_symlink("target", path_);
  EXPECT_FALSE(LockFile::Take(path_).ok());
  EXPECT_EQ(ReadFile(dir_.path() + "/target"), "x");
  EXPECT_EQ(LockFile::Take(dir_.path() + "/none/lock").status().code(),
            absl::StatusCode::kNotFound);
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
        const auto lock = LockFile::Take(path_);
        if (!lock.ok()) {
          EXPECT_EQ(lock.status().code(),
                    absl::StatusCode::kFailedPrecondition);
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
