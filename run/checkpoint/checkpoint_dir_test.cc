#include "run/checkpoint/checkpoint_dir.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_directory.h"
#include "base/atomic_file.h"
#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "run/checkpoint/checkpoint_for_test.h"
#include "run/checkpoint/checkpoint_parts.h"
#include "run/checkpoint/checkpoint_reader.h"
#include "run/checkpoint/checkpoint_writer.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointDirTest : public ::testing::Test {
 protected:
  CheckpointDirTest() {
    EXPECT_TRUE(dir_.Make().ok());
    EXPECT_TRUE(dir_.Make().ok());  // again, where it is already
  }
  void Write(std::vector<int64_t> steps, int world_size = 1) {
    for (int64_t step : steps) {
      const absl::Status status = WriteStep(dir_, step, world_size);
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  void Damage(int64_t step) {
    std::string path = dir_.PathOf(step);
    if (std::filesystem::is_directory(path)) path += "/" + PartName(1, 2);
    std::string bytes = ReadFile(path);
    bytes[bytes.size() / 2] ^= 1;
    WriteFile(path, bytes);
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    auto entries = dir_.List();
    EXPECT_TRUE(entries.ok());
    for (const CheckpointEntry& entry : *entries) steps.push_back(entry.step);
    return steps;
  }

  std::vector<std::string> Names() {
    auto names = ListDirectory(dir_.directory());
    EXPECT_TRUE(names.ok()) << names.status();
    return *names;
  }

  TemporaryDirectory temporary_;
  CheckpointDir dir_{temporary_.path() + "/run/out"};
};

TEST(CheckpointName, IsReadBack) {
  EXPECT_EQ(CheckpointName(100), "step-00000100.castor");
  for (int64_t step : {int64_t{0}, int64_t{1}, int64_t{99'999'999},
                       int64_t{123'456'789'012}}) {
    EXPECT_EQ(StepOfCheckpointName(CheckpointName(step)), step);
  }
  for (const char* name :
       {"step-100.castor", "step-00000100.castor.tmp-1-0", "step-.castor",
        "step-0000010x.castor", "step--0000001.castor", "xstep-00000100.castor",
        "step-000000100.castor", "step-99999999999999999999.castor", "step-"}) {
    EXPECT_EQ(StepOfCheckpointName(name), -1) << name;
  }
}

TEST_F(CheckpointDirTest, FindsTheNewestByStepNotByTime) {
  Write({30, 100, 20});
  WriteFile(dir_.directory() + "/notes.txt", "x");
  EXPECT_THAT(Steps(), ElementsAre(20, 30, 100));
  std::vector<std::string> skipped;
  auto latest = dir_.FindLatest(&skipped);
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(latest->step, 100);
  EXPECT_EQ(latest->path, dir_.PathOf(100));
  EXPECT_THAT(skipped, IsEmpty());
}

TEST_F(CheckpointDirTest, SkipsDamagedFilesAndSaysWhy) {
  Write({1, 2, 3, 4});
  Damage(3);
  WriteFile(dir_.PathOf(4), "");
  std::vector<std::string> skipped;
  auto latest = dir_.FindLatest(&skipped);
  ASSERT_TRUE(latest.ok());
  EXPECT_EQ(latest->step, 2);
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_THAT(skipped[0], HasSubstr("skipped step 4"));
  EXPECT_THAT(skipped[0], HasSubstr("only 0 bytes"));
  EXPECT_THAT(skipped[1], HasSubstr("skipped step 3"));
  EXPECT_THAT(skipped[1], HasSubstr("checksum"));
}

// It is unknown whether it is damaged, and it may hold the latest steps.
TEST_F(CheckpointDirTest, DoesNotSkipWhatCannotBeRead) {
  for (const int world_size : {1, 2}) {
    Write({1, 2}, world_size);
    std::string unreadable = dir_.PathOf(2);
    if (world_size == 2) unreadable += "/rank-0-of-2.part";
    const std::string away = temporary_.path() + "/away";
    std::filesystem::rename(unreadable, away);
    std::filesystem::create_symlink(unreadable, unreadable);  // ELOOP
    std::vector<std::string> skipped;
    const auto latest = dir_.FindLatest(&skipped);
    ASSERT_FALSE(latest.ok()) << latest->step;
    EXPECT_FALSE(absl::IsNotFound(latest.status())) << latest.status();
    EXPECT_THAT(std::string(latest.status().message()),
                AllOf(HasSubstr(dir_.PathOf(2)), HasSubstr("symbolic links")));
    EXPECT_THAT(skipped, IsEmpty());
    std::filesystem::remove(unreadable);
    std::filesystem::rename(away, unreadable);
    EXPECT_EQ(dir_.FindLatest(nullptr)->step, 2);
  }
}

TEST_F(CheckpointDirTest, SaysWhenThereIsNone) {
  auto none = dir_.FindLatest(nullptr);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  Write({5});
  Damage(5);
  none = dir_.FindLatest(nullptr);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("checksum"));
  CheckpointDir missing(temporary_.path() + "/missing");
  EXPECT_EQ(missing.FindLatest(nullptr).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CheckpointDirTest, PruneKeepsTheNewest) {
  Write({1, 2, 3, 4});
  ASSERT_TRUE(dir_.Prune(2).ok());
  EXPECT_THAT(Steps(), ElementsAre(3, 4));
  ASSERT_TRUE(dir_.Prune(5).ok());
  EXPECT_THAT(Steps(), ElementsAre(3, 4));
  ASSERT_TRUE(dir_.Prune(1, 4).ok());
  EXPECT_THAT(Steps(), ElementsAre(4));
  EXPECT_EQ(dir_.Prune(0).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointDirTest, PruneNeverRemovesTheNewestValidOne) {
  Write({1, 2, 3, 4, 5});
  Damage(4);
  Damage(5);
  ASSERT_TRUE(dir_.Prune(1).ok());
  EXPECT_THAT(Steps(), ElementsAre(3, 5));
  Damage(3);
  ASSERT_TRUE(dir_.Prune(1).ok());
  EXPECT_THAT(Steps(), ElementsAre(3, 5)) << "nothing valid: nothing removed";
}

// The checkpoint that was just saved stays, whatever has a later step's name:
// it was not there when the run began.
TEST_F(CheckpointDirTest, PruneNeverRemovesWhatWasJustSaved) {
  Write({2, 4, 6, 8, 10});
  ASSERT_TRUE(dir_.Prune(2, 4).ok());
  EXPECT_THAT(Steps(), ElementsAre(4, 8, 10));
}

TEST_F(CheckpointDirTest, PruneSparesTheOneThatIsNamed) {
  Write({2, 4, 6, 8, 10});
  ASSERT_TRUE(dir_.Prune(2, 10, /*spared_step=*/4).ok());
  EXPECT_THAT(Steps(), ElementsAre(4, 8, 10));
  // Among the newest it is one of them; one that is not there changes nothing.
  ASSERT_TRUE(dir_.Prune(2, 10, 8).ok());
  EXPECT_THAT(Steps(), ElementsAre(8, 10));
  ASSERT_TRUE(dir_.Prune(1, 10, 4).ok());
  EXPECT_THAT(Steps(), ElementsAre(10));
}

// One is in use, say, where files in use cannot be removed.
TEST_F(CheckpointDirTest, PruneGoesOnAfterOneThatCannotBeRemoved) {
  Write({2, 4, 6});
  if (geteuid() == 0) {
    std::printf("skipped: root can remove every file\n");
    return;
  }
  std::filesystem::remove(dir_.PathOf(2));
  std::filesystem::create_directories(dir_.PathOf(2) + "/x/y");
  ASSERT_EQ(chmod((dir_.PathOf(2) + "/x").c_str(), 0), 0);
  EXPECT_FALSE(dir_.Prune(1, 6).ok());
  EXPECT_THAT(Steps(), ElementsAre(6));
  for (const std::string& name : Names()) {
    chmod((dir_.directory() + "/" + name + "/x").c_str(), 0700);
  }
}

TEST(RoomForSaves, IsForThoseKeptAndOneMore) {
  EXPECT_EQ(RoomForSaves({}, 10, 100, 2), 30);
  EXPECT_EQ(RoomForSaves({}, 10, 3, 2), 30);
  EXPECT_EQ(RoomForSaves({}, 10, 2, 2), 20);
  EXPECT_EQ(RoomForSaves({}, 10, 0, 2), 0);
  EXPECT_EQ(RoomForSaves({}, 10, 100, 1), 20);
  // Checkpoints that are there and will be pruned make room: for the first save
  // none yet, then one of 4, then one of 16, which is more than a new one
  // takes.
  EXPECT_EQ(RoomForSaves({10, 10}, 10, 100, 2), 10);
  EXPECT_EQ(RoomForSaves({4, 16}, 10, 100, 2), 16);
  EXPECT_EQ(RoomForSaves({4, 16}, 10, 1, 2), 10);
  // More than are kept, from a run that kept more.
  EXPECT_EQ(RoomForSaves({5, 5, 5, 5}, 10, 100, 2), 10);
  EXPECT_EQ(RoomForSaves({}, int64_t{1} << 62, 100, 2),
            std::numeric_limits<int64_t>::max());
}

TEST_F(CheckpointDirTest, SaysBeforehandThatTheDiskHasNoRoom) {
  ASSERT_TRUE(dir_.Make().ok());
  EXPECT_TRUE(dir_.CheckRoom(1, 100, 2, -1).ok());
  EXPECT_EQ(*dir_.MissingRoom(1, 100, 2, -1), "");
  const absl::Status full = dir_.CheckRoom(int64_t{1} << 55, 100, 2, -1);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()),
              AllOf(HasSubstr(dir_.directory()), HasSubstr("free"),
                    HasSubstr("checkpoint.keep")));
  EXPECT_EQ(*dir_.MissingRoom(int64_t{1} << 55, 100, 2, -1), full.message());
}

TEST_F(CheckpointDirTest, HandlesDirectoriesLikeFiles) {
  Write({1, 3, 4}, 2);
  Write({2, 5});
  EXPECT_THAT(Steps(), ElementsAre(1, 2, 3, 4, 5));
  Damage(5);
  Damage(4);
  std::vector<std::string> skipped;
  auto latest = dir_.FindLatest(&skipped);
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(latest->step, 3);
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_THAT(skipped[1], HasSubstr("rank-1-of-2.part"));
  ASSERT_TRUE(dir_.Prune(1).ok());
  EXPECT_THAT(Steps(), ElementsAre(3, 5));
  EXPECT_EQ(Names().size(), 2u) << "nothing else is left of them";
  Write({6});
  ASSERT_TRUE(dir_.Prune(1, 6).ok());
  EXPECT_THAT(Names(), ElementsAre(CheckpointName(6)));
}

TEST_F(CheckpointDirTest, ReplacesOneOfAnotherWorldSize) {
  for (int world_size : {1, 2, 2, 1, 1}) {
    Write({7}, world_size);
    EXPECT_THAT(Names(), ElementsAre(CheckpointName(7)));
    EXPECT_EQ(std::filesystem::is_directory(dir_.PathOf(7)), world_size == 2);
    EXPECT_TRUE(dir_.FindLatest(nullptr).ok());
  }
}

// Killed between the two steps of a replacement.
TEST_F(CheckpointDirTest, FindsOneThatWasPutAside) {
  Write({7}, 2);
  const std::string aside = dir_.PathOf(7) + ".old-12-0";
  std::filesystem::rename(dir_.PathOf(7), aside);
  auto latest = dir_.FindLatest(nullptr);
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(latest->step, 7);
  EXPECT_EQ(latest->path, aside);
  ASSERT_TRUE(dir_.RemoveStaleTemporaries().ok());
  EXPECT_THAT(Names(), ElementsAre(CheckpointName(7)));
  // One that has been replaced since is no checkpoint any more.
  std::filesystem::create_directory(aside);
  EXPECT_THAT(Steps(), ElementsAre(7));
  ASSERT_TRUE(dir_.RemoveStaleTemporaries().ok());
  EXPECT_THAT(Names(), ElementsAre(CheckpointName(7)));
}

TEST_F(CheckpointDirTest, TellsACheckpointFromADirectoryOfThem) {
  Write({1}, 2);
  Write({2});
  for (int64_t step : {1, 2}) {
    EXPECT_TRUE(IsCheckpoint(dir_.PathOf(step)));
    EXPECT_TRUE(IsCheckpoint(dir_.PathOf(step) + "/"));
  }
  EXPECT_FALSE(IsCheckpoint(dir_.directory()));
  EXPECT_FALSE(IsCheckpoint(dir_.directory() + "/"));
  // A file's contents tell, whatever its name is; so does the name of a
  // directory that was to be a checkpoint.
  std::filesystem::rename(dir_.PathOf(1), dir_.directory() + "/best");
  EXPECT_TRUE(IsCheckpoint(dir_.directory() + "/best"));
  std::filesystem::create_directory(dir_.PathOf(3));
  EXPECT_TRUE(IsCheckpoint(dir_.PathOf(3)));
}

// A child writes checkpoints in a loop and prunes, and is killed somewhere in
// it. The checkpoints that it reported as saved must be there, whole, and
// nothing else but temporaries.
TEST_F(CheckpointDirTest, SurvivesKillAtRandomMoments) {
  constexpr int kMinRounds = 40;
  const uint32_t seed = 20240117;
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  int64_t latest_step = 0;
  int64_t stale = 0;
  int round = 0;
  // Goes on, with longer delays, on a machine so slow that no kill met a write.
  for (; round < kMinRounds || latest_step == 0 || stale == 0; ++round) {
    const int64_t delay_us = random() % (12'000 * (1 + round / kMinRounds));
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int64_t step = latest_step + 1;; ++step) {
        if (!WriteStep(dir_, step, 1 + step % 2).ok() ||
            write(ends[1], &step, sizeof(step)) != sizeof(step) ||
            !dir_.Prune(2, step).ok()) {
          _exit(1);
        }
      }
    }
    close(ends[1]);
    usleep(static_cast<useconds_t>(delay_us));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int wait_status = 0;
    ASSERT_EQ(waitpid(child, &wait_status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(wait_status)) << "round " << round;
    int64_t said_saved = latest_step;
    for (int64_t step; read(ends[0], &step, sizeof(step)) == sizeof(step);) {
      said_saved = step;
    }
    close(ends[0]);

    for (const std::string& name : Names()) {
      EXPECT_TRUE(StepOfCheckpointName(name) >= 0 ||
                  StepOfCheckpointName(TemporaryTarget(name)) >= 0)
          << name;
    }
    std::vector<std::string> skipped;
    auto latest = dir_.FindLatest(&skipped);
    EXPECT_THAT(skipped, IsEmpty());
    if (latest.ok()) {
      EXPECT_GE(latest->step, said_saved);
      latest_step = latest->step;
      auto reader = CheckpointReader::Open(latest->path);
      ASSERT_TRUE(reader.ok()) << reader.status();
      EXPECT_EQ((*reader)->metadata(),
                absl::StrCat("{\"step\":", latest_step, "}"));
      std::vector<float> values(kElements);
      ASSERT_TRUE(
          (*reader)
              ->Read("x", StatePart::kMaster, 0, kElements, values.data())
              .ok());
      for (int64_t i = 0; i < kElements; ++i) {
        ASSERT_EQ(values[i], ValueAt(latest_step, i));
      }
    } else {
      EXPECT_EQ(said_saved, 0) << latest.status();
    }
    auto removed = dir_.RemoveStaleTemporaries();
    ASSERT_TRUE(removed.ok()) << removed.status();
    EXPECT_LE(removed->size(), 1u);
    stale += static_cast<int64_t>(removed->size());
    for (const std::string& name : Names()) {
      EXPECT_GE(StepOfCheckpointName(name), 0) << name;
    }
  }
  std::cout << round << " kills, " << latest_step << " steps saved, " << stale
            << " temporaries left behind and removed\n";
}

}  // namespace
}  // namespace castor
