#include "base/atomic_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AtomicFileTest : public ::testing::Test {
 protected:
  std::vector<std::string> Names() { return *ListDirectory(dir_.path()); }

  TemporaryDirectory dir_;
  const std::string path_ = dir_.path() + "/file";
};

TEST_F(AtomicFileTest, TakesItsNameOnlyAtCommit) {
  WriteFile(path_, "old");
  auto file = AtomicFile::Create(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("new", 3).ok());
  ASSERT_TRUE((*file)->Append(" text", 5).ok());
  EXPECT_EQ(ReadFile(path_), "old");
  EXPECT_EQ((*file)->size_bytes(), 8);
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(ReadFile(path_), "new text");
  EXPECT_THAT(Names(), ElementsAre("file"));
  EXPECT_EQ((*file)->Append("x", 1).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*file)->Commit().code(), absl::StatusCode::kFailedPrecondition);
  file->reset();
  EXPECT_EQ(ReadFile(path_), "new text");
}

TEST_F(AtomicFileTest, RemovesItsTemporaryWhenNotCommitted) {
  WriteFile(path_, "old");
  {
    auto file = AtomicFile::Create(path_);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append("new", 3).ok());
    EXPECT_EQ(Names().size(), 2u);
  }
  EXPECT_THAT(Names(), ElementsAre("file"));
  EXPECT_EQ(ReadFile(path_), "old");
}

TEST_F(AtomicFileTest, NamesAMissingDirectory) {
  auto file = AtomicFile::Create(dir_.path() + "/none/file");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("/none/file"));
}

TEST_F(AtomicFileTest, KeepsAFailedWriteAndTheFormerFile) {
  WriteFile(path_, "old");
  // A limit on the file's size stands for a full disk.
  rlimit former;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
  signal(SIGXFSZ, SIG_IGN);
  {
    auto file = AtomicFile::Create(path_);
    ASSERT_TRUE(file.ok());
    rlimit small = former;
    small.rlim_cur = 1000;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string piece(700, 'x');
    EXPECT_TRUE((*file)->Append(piece.data(), 700).ok());
    const absl::Status failed = (*file)->Append(piece.data(), 700);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &former), 0);
    EXPECT_FALSE(failed.ok());
    EXPECT_THAT(std::string(failed.message()), HasSubstr(path_));
    EXPECT_THAT(std::string(failed.message()), HasSubstr("1000 bytes"));
    EXPECT_EQ((*file)->Append(piece.data(), 1), failed);
    EXPECT_EQ((*file)->Commit(), failed);
  }
  EXPECT_THAT(Names(), ElementsAre("file"));
  EXPECT_EQ(ReadFile(path_), "old");
}

TEST_F(AtomicFileTest, TwoWritersOfOneNameDoNotMeet) {
  auto a = AtomicFile::Create(path_);
  auto b = AtomicFile::Create(path_);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_TRUE((*a)->Append("aaaa", 4).ok());
  ASSERT_TRUE((*b)->Append("b", 1).ok());
  ASSERT_TRUE((*a)->Commit().ok());
  EXPECT_EQ(ReadFile(path_), "aaaa");
  ASSERT_TRUE((*b)->Commit().ok());
  EXPECT_EQ(ReadFile(path_), "b");
}

TEST_F(AtomicFileTest, OnlyTemporariesOfTheDeadAreStale) {
  // A child that is killed while it writes; the parent's own stays locked.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto file = AtomicFile::Create(path_);
    if (!file.ok() || !(*file)->Append("half", 4).ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(wait_status));
  auto live = AtomicFile::Create(path_);
  ASSERT_TRUE(live.ok());
  WriteFile(dir_.path() + "/file.tmp-x-1", "not ours");
  ASSERT_EQ(Names().size(), 3u);

  auto none = RemoveStaleTemporaries(
      dir_.path(), [](absl::string_view target) { return target == "other"; });
  ASSERT_TRUE(none.ok());
  EXPECT_THAT(*none, IsEmpty());
  auto removed = RemoveStaleTemporaries(
      dir_.path(), [](absl::string_view target) { return target == "file"; });
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_EQ(removed->size(), 1u);
  EXPECT_THAT((*removed)[0], HasSubstr(std::to_string(child)));
  EXPECT_EQ(Names().size(), 2u);
  EXPECT_TRUE((*live)->Commit().ok());
}

}  // namespace
}  // namespace castor
