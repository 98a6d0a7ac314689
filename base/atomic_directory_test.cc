#include "base/atomic_directory.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic_file.h"
#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class AtomicDirectoryTest : public ::testing::Test {
 protected:
  std::vector<std::string> Names() { return *ListDirectory(dir_.path()); }
  std::vector<std::string> RemoveStale() {
    auto removed = RemoveStaleTemporaries(
        dir_.path(), [](absl::string_view target) { return target == "d"; });
    EXPECT_TRUE(removed.ok()) << removed.status();
    return *removed;
  }

  TemporaryDirectory dir_;
  const std::string path_ = dir_.path() + "/d";
};

TEST_F(AtomicDirectoryTest, TakesItsNameOnlyAtCommit) {
  for (int round = 0; round < 2; ++round) {  // the second replaces the first
    auto directory = AtomicDirectory::Create(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    WriteFile((*directory)->temporary_path() + "/a", std::to_string(round));
    EXPECT_EQ(std::filesystem::exists(path_), round == 1);
    if (round == 1) {
      EXPECT_EQ(ReadFile(path_ + "/a"), "0");
    }
    ASSERT_TRUE((*directory)->Commit().ok());
    EXPECT_EQ((*directory)->Commit().code(),
              absl::StatusCode::kFailedPrecondition);
    directory->reset();
    EXPECT_THAT(Names(), ElementsAre("d"));
    EXPECT_THAT(*ListDirectory(path_), ElementsAre("a"));
    EXPECT_EQ(ReadFile(path_ + "/a"), std::to_string(round));
  }
}

TEST_F(AtomicDirectoryTest, RemovesItsTemporaryWhenNotCommitted) {
  WriteFile(path_, "old");
  {
    auto directory = AtomicDirectory::Create(path_);
    ASSERT_TRUE(directory.ok());
    WriteFile((*directory)->temporary_path() + "/a", "x");
    EXPECT_EQ(Names().size(), 2u);
  }
  EXPECT_THAT(Names(), ElementsAre("d"));
  EXPECT_EQ(ReadFile(path_), "old");
}

TEST_F(AtomicDirectoryTest, NamesAMissingDirectory) {
  const auto directory = AtomicDirectory::Create(dir_.path() + "/none/d");
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(directory.status().message()), HasSubstr("/none/d"));
}

// The maker of one temporary is killed; of a second one the maker is killed
// while another process still writes a file in it; a third one's maker lives.
TEST_F(AtomicDirectoryTest, OnlyTemporariesThatNobodyWritesAreStale) {
  std::string names[2];
  for (std::string& name : names) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto made = AtomicDirectory::Create(path_);
      if (!made.ok()) _exit(1);
      const std::string& temporary = (*made)->temporary_path();
      WriteFile(temporary + "/a", "x");
      if (write(ends[1], temporary.data(), temporary.size()) < 0) _exit(1);
      kill(getpid(), SIGKILL);
    }
    close(ends[1]);
    char text[4096];
    const ssize_t size = read(ends[0], text, sizeof(text));
    ASSERT_GT(size, 0);
    name.assign(text, static_cast<size_t>(size));
    close(ends[0]);
    int wait_status = 0;
    ASSERT_EQ(waitpid(child, &wait_status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(wait_status));
  }
  auto writer = AtomicFile::Create(names[1] + "/b");
  ASSERT_TRUE(writer.ok()) << writer.status();
  auto live = AtomicDirectory::Create(path_);
  ASSERT_TRUE(live.ok());
  ASSERT_EQ(Names().size(), 3u);

  EXPECT_THAT(RemoveStale(),
              ElementsAre(names[0].substr(dir_.path().size() + 1)));
  EXPECT_EQ(Names().size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(names[1] + "/a"));
  writer->reset();
  EXPECT_THAT(RemoveStale(),
              ElementsAre(names[1].substr(dir_.path().size() + 1)));
  EXPECT_THAT(RemoveStale(), IsEmpty());
  ASSERT_TRUE((*live)->Commit().ok());
  EXPECT_THAT(Names(), ElementsAre("d"));
}

TEST_F(AtomicDirectoryTest, StaleOnesOfOtherNamesStay) {
  std::filesystem::create_directory(dir_.path() + "/e.tmp-1-0");
  std::filesystem::create_directory(dir_.path() + "/d.tmp-x-0");
  std::filesystem::create_directory(dir_.path() + "/d.old-1-0");
  EXPECT_THAT(RemoveStale(), ElementsAre("d.old-1-0"));
  EXPECT_THAT(Names(), UnorderedElementsAre("d", "d.tmp-x-0", "e.tmp-1-0"));
}

TEST_F(AtomicDirectoryTest, IsNotTakenForStaleBeforeItIsLocked) {
  const std::jthread cleaner([&](const std::stop_token& ends) {
    while (!ends.stop_requested()) RemoveStale();
  });
  for (int i = 0; i < 1'000; ++i) {
    const auto directory = AtomicDirectory::Create(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    ASSERT_TRUE(std::filesystem::exists((*directory)->temporary_path() + "/" +
                                        AtomicDirectory::kLockName))
        << i;
  }
}

}  // namespace
}  // namespace castor
