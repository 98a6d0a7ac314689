#include "run/checkpoint/set_aside.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "run/checkpoint/checkpoint_for_test.h"

namespace castor {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SetAsideTest : public ::testing::Test {
 protected:
  // A run saves one step.
  void Save(int64_t step) {
    ASSERT_TRUE(dir_.Make().ok());
    ASSERT_TRUE(WriteStep(dir_, step).ok());
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(temporary_.path())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string Path(const std::string& name) const {
    return temporary_.path() + "/" + name;
  }

  const TemporaryDirectory temporary_;
  const CheckpointDir dir_{temporary_.path() + "/run/"};
};

TEST_F(SetAsideTest, MovesLaterStepsAndSaysHowMuchTheyAre) {
  for (const int64_t step : {1, 2, 3}) Save(step);
  const auto aside = MoveLaterAside(dir_, 1);
  ASSERT_TRUE(aside.ok()) << aside.status();
  EXPECT_EQ(aside->path, Path("run.1"));
  // Two of 5000 floats each, and the file's other bytes.
  EXPECT_GE(aside->bytes, 2 * kElements * 4);
  EXPECT_LE(aside->bytes, 2 * kElements * 4 + (1 << 14));
  const auto moved = CheckpointDir(aside->path).List();
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ(moved->size(), 2u);
  const auto none = MoveLaterAside(dir_, 1);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->path, "");
}

// A file system that is linked to has room for what it has itself.
TEST_F(SetAsideTest, MovesBesideWhatALinkLeadsTo) {
  fs::create_directories(Path("scratch/steps"));
  fs::create_directory_symlink("scratch/steps", Path("run"));
  for (const int64_t step : {1, 2}) Save(step);
  const auto aside = MoveLaterAside(dir_, 1);
  ASSERT_TRUE(aside.ok()) << aside.status();
  EXPECT_EQ(fs::path(aside->path), fs::canonical(Path("scratch/steps.1")));
  EXPECT_FALSE(fs::exists(Path("run.1")));
}

// Else the directory that moved last would be taken for the oldest.
TEST_F(SetAsideTest, TakesNoNumberASecondTime) {
  for (int i = 0; i < 2; ++i) {
    Save(1);
    ASSERT_TRUE(MoveLaterAside(dir_, -1).ok());
  }
  fs::remove_all(Path("run.1"));
  Save(1);
  EXPECT_EQ(MoveLaterAside(dir_, -1)->path, Path("run.3"));
  // Any file that has a number counts.
  WriteFile(Path("run.7"), "");
  Save(1);
  EXPECT_EQ(MoveLaterAside(dir_, -1)->path, Path("run.8"));
}

TEST_F(SetAsideTest, RemovesAllButTheNewest) {
  for (int i = 0; i < 11; ++i) {
    Save(1);
    ASSERT_TRUE(MoveLaterAside(dir_, -1).ok());
  }
  absl::Status problem;
  const auto removed = RemoveOldAside(dir_, 2, &problem);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_TRUE(problem.ok()) << problem;
  EXPECT_EQ(removed->size(), 9u);
  for (const AsideDirectory& each : *removed) {
    EXPECT_GE(each.bytes, kElements * 4) << each.path;
  }
  EXPECT_THAT(Names(), ElementsAre("run", "run.10", "run.11"));
}

TEST_F(SetAsideTest, RemovesNothingThatIsSomebodyElses) {
  // Another run's directory, of that name by the user's choice; files beside
  // checkpoints; a link; and a directory in which a run goes on.
  const CheckpointDir chosen(Path("run.1"));
  ASSERT_TRUE(chosen.Make().ok());
  ASSERT_TRUE(WriteStep(chosen, 1).ok());
  for (int i = 0; i < 3; ++i) {
    Save(1);
    ASSERT_TRUE(MoveLaterAside(dir_, -1).ok());
  }
  WriteFile(Path("run.2/notes"), "mine");
  ASSERT_TRUE(NoLongerAside(CheckpointDir(Path("run.3"))).ok());
  fs::create_directory_symlink(Path("run.4"), Path("run.5"));
  Save(1);
  ASSERT_TRUE(MoveLaterAside(dir_, -1).ok());
  absl::Status problem;
  const auto removed = RemoveOldAside(dir_, 1, &problem);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_TRUE(problem.ok()) << problem;
  EXPECT_THAT(Names(),
              ElementsAre("run", "run.1", "run.2", "run.3", "run.5", "run.6"));
  EXPECT_EQ(ReadFile(Path("run.2/notes")), "mine");
  EXPECT_EQ(CheckpointDir(Path("run.1")).List()->size(), 1u);
  EXPECT_EQ(CheckpointDir(Path("run.3")).List()->size(), 1u);
  EXPECT_THAT(*CheckpointDir(Path("run.2")).List(), IsEmpty());
}

}  // namespace
}  // namespace castor
