#include "base/directory_entry.h"

#include <filesystem>
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
using ::testing::StartsWith;

class DirectoryEntryTest : public ::testing::Test {
 protected:
  std::vector<std::string> Names() { return *ListDirectory(dir_.path()); }
  std::string Path(const std::string& name) { return dir_.path() + "/" + name; }
  // A directory that holds one file.
  void MakeDirectory(const std::string& name, const std::string& text) {
    std::filesystem::create_directory(Path(name));
    WriteFile(Path(name) + "/in", text);
  }
  // An entry of either kind that holds `text`.
  void Make(bool directory, const std::string& name, const std::string& text) {
    if (directory) {
      MakeDirectory(name, text);
    } else {
      WriteFile(Path(name), text);
    }
  }
  std::string TextOf(bool directory, const std::string& name) {
    return ReadFile(Path(name) + (directory ? "/in" : ""));
  }

  TemporaryDirectory dir_;
};

TEST(EntryNames, AreReadBack) {
  const std::string name = TemporaryName("a", 7);
  EXPECT_THAT(name, StartsWith("a.tmp-"));
  EXPECT_EQ(TemporaryTarget(name), "a");
  EXPECT_EQ(TemporaryTarget("a.tmp-12-0"), "a");
  EXPECT_EQ(TemporaryTarget("a.tmp-1-2.tmp-3-4"), "a.tmp-1-2");
  EXPECT_EQ(AsideTarget("a.old-12-0"), "a");
  for (const char* other : {"a", ".tmp-1-0", "a.tmp-1", "a.tmp-x-0", "a.tmp-1-",
                            "a.tmp--0", "a.tmp-1-2x", "a.old-12-0", ""}) {
    EXPECT_EQ(TemporaryTarget(other), "") << other;
  }
  EXPECT_EQ(AsideTarget("a.tmp-12-0"), "");
  EXPECT_EQ(ParentDirectory("a"), ".");
  EXPECT_EQ(ParentDirectory("/a"), "/");
  EXPECT_EQ(ParentDirectory("x/y/a"), "x/y");
}

TEST_F(DirectoryEntryTest, TakesANameFromAnyOtherEntry) {
  for (const auto take : {TakeName, TakeNameInTwoSteps}) {
    for (bool old_directory : {false, true}) {
      for (bool new_directory : {false, true}) {
        Make(old_directory, "a", "old");
        Make(new_directory, "b", "new");
        const absl::Status taken = take(Path("b"), Path("a"));
        ASSERT_TRUE(taken.ok()) << taken;
        EXPECT_THAT(Names(), ElementsAre("a"));
        EXPECT_EQ(TextOf(new_directory, "a"), "new");
        ASSERT_TRUE(RemoveEntry(Path("a")).ok());
        EXPECT_THAT(Names(), IsEmpty());
      }
    }
  }
  Make(true, "b", "new");
  ASSERT_TRUE(TakeName(Path("b"), Path("a")).ok());
  EXPECT_THAT(Names(), ElementsAre("a"));
}

TEST_F(DirectoryEntryTest, LeavesWhatIsThereWhenThereIsNothingToTakeIt) {
  for (const auto take : {TakeName, TakeNameInTwoSteps}) {
    for (bool directory : {false, true}) {
      Make(directory, "a", "old");
      const absl::Status failed = take(Path("none"), Path("a"));
      EXPECT_EQ(failed.code(), absl::StatusCode::kNotFound) << failed;
      EXPECT_THAT(std::string(failed.message()), HasSubstr("/none"));
      EXPECT_THAT(Names(), ElementsAre("a"));
      EXPECT_EQ(TextOf(directory, "a"), "old");
      ASSERT_TRUE(RemoveEntry(Path("a")).ok());
    }
  }
}

TEST_F(DirectoryEntryTest, RestoresWhatWasPutAsideUnlessItIsReplaced) {
  MakeDirectory("a.old-12-0", "old");
  ASSERT_TRUE(RestoreAside(dir_.path(), "a.old-12-0").ok());
  EXPECT_THAT(Names(), ElementsAre("a"));
  EXPECT_EQ(TextOf(true, "a"), "old");

  MakeDirectory("a.old-12-0", "older");
  ASSERT_TRUE(RestoreAside(dir_.path(), "a.old-12-0").ok());
  EXPECT_THAT(Names(), ElementsAre("a"));
  EXPECT_EQ(TextOf(true, "a"), "old");
}

TEST_F(DirectoryEntryTest, RemovesWhatIsThereOrNot) {
  EXPECT_TRUE(RemoveEntry(Path("none")).ok());
  EXPECT_FALSE(RemoveEntry("/proc/self/status").ok());
  // An entry that another process left half removed does not stop a second one.
  MakeDirectory("a", "x");
  MakeDirectory(TemporaryName("a", 0), "y");
  ASSERT_TRUE(RemoveEntry(Path("a")).ok());
  EXPECT_THAT(Names(), ElementsAre(TemporaryName("a", 0)));
  ASSERT_TRUE(RemoveEntry(Path(TemporaryName("a", 0))).ok());
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(DirectoryEntryTest, MakesTheDirectoriesThatAreMissing) {
  const auto made = MakeDirectories(Path("a/b/c/"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(*made, ElementsAre(Path("a"), Path("a/b"), Path("a/b/c")));
  EXPECT_TRUE(std::filesystem::is_directory(Path("a/b/c")));
  EXPECT_THAT(*MakeDirectories(Path("a/b")), IsEmpty());
  std::filesystem::create_symlink("a", Path("link"));
  EXPECT_THAT(*MakeDirectories(Path("link/b/d")),
              ElementsAre(Path("link/b/d")));
  WriteFile(Path("file"), "");
  for (const char* bad : {"file", "file/x"}) {
    const auto none = MakeDirectories(Path(bad));
    EXPECT_THAT(std::string(none.status().message()), HasSubstr(bad));
  }
}

}  // namespace
}  // namespace castor
