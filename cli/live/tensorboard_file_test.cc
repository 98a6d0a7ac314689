#include "cli/live/tensorboard_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "cli/live/tensorboard_decoder.h"

namespace castor::cli {
namespace {

using ::castor::testing::DecodeTensorBoard;
using ::castor::testing::TensorBoardEvent;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// RFC 3720, B.4; and the check value of the catalogue of CRCs.
TEST(Crc32c, IsTheOneOfTheStandard) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising.push_back(static_cast<char>(i));
  EXPECT_EQ(Crc32c(rising), 0x46dd794eu);
}

class TensorBoard : public ::testing::Test {
 protected:
  std::unique_ptr<TensorBoardFile> Create(int64_t step = 0) {
    auto file = TensorBoardFile::Create(directory(), step);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  std::string directory() const { return temporary_.path() + "/runs/a"; }

  TemporaryDirectory temporary_;
};

std::vector<TensorBoardEvent> Decode(const std::string& path) {
  auto events = DecodeTensorBoard(ReadFile(path));
  EXPECT_TRUE(events.ok()) << events.status();
  return events.ok() ? *events : std::vector<TensorBoardEvent>();
}

TEST_F(TensorBoard, HasEachScalarAtItsStep) {
  const auto file = Create();
  ASSERT_TRUE(file->Append(1e9 + 0.5, 1, {{"train/loss", 2.5}}).ok());
  // A step beyond 32 bits, a tag beyond one length byte, no scalars.
  const std::string tag(300, 't');
  ASSERT_TRUE(file->Append(1e9 + 1, int64_t{1} << 40,
                           {{"train/loss", -0.1}, {tag, 1e30}})
                  .ok());
  ASSERT_TRUE(file->Append(1e9 + 2, 0, {}).ok());
  const auto events = Decode(file->path());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_GT(events[0].wall_time, 1.5e9);
  EXPECT_EQ(events[1].wall_time, 1e9 + 0.5);
  EXPECT_EQ(events[1].step, 1);
  EXPECT_THAT(events[1].scalars, ElementsAre(Pair("train/loss", 2.5f)));
  EXPECT_EQ(events[2].step, int64_t{1} << 40);
  EXPECT_THAT(events[2].scalars,
              ElementsAre(Pair("train/loss", -0.1f), Pair(tag, 1e30f)));
  EXPECT_TRUE(events[3].scalars.empty());
}

// The file is read while its writer lives: what is there is whole.
TEST_F(TensorBoard, IsReadableAfterEachStep) {
  const auto file = Create();
  for (int64_t step = 1; step <= 100; ++step) {
    ASSERT_TRUE(
        file->Append(1e9, step, {{"a", static_cast<double>(step)}}).ok());
    const auto events = Decode(file->path());
    ASSERT_EQ(static_cast<int64_t>(events.size()), step + 1);
    ASSERT_EQ(events.back().step, step);
  }
}

TEST_F(TensorBoard, ResumesInAFileThatIsReadLaterAndVoidsWhatIsRedone) {
  std::vector<std::string> paths;
  for (const int64_t step : {0, 7, 0, 3}) {
    const auto file = Create(step);
    ASSERT_TRUE(file->Append(1e9, step + 1, {}).ok());
    paths.push_back(file->path());
    const auto events = Decode(file->path());
    if (step == 0) {
      EXPECT_EQ(events.size(), 2u);
    } else {
      ASSERT_EQ(events.size(), 3u);
      EXPECT_TRUE(events[1].session_start);
      EXPECT_EQ(events[1].step, step + 1);
    }
  }
  // Made within a second, and yet in order.
  EXPECT_TRUE(std::is_sorted(paths.begin(), paths.end()));
  EXPECT_EQ(std::unique(paths.begin(), paths.end()), paths.end());
  for (const std::string& path : paths) {
    EXPECT_THAT(path, HasSubstr("/events.out.tfevents."));
  }
}

TEST_F(TensorBoard, LeavesNothingOfARunThatNeverTookAStep) {
  Create();
  EXPECT_FALSE(std::filesystem::exists(directory()));
  std::filesystem::create_directories(directory());
  WriteFile(directory() + "/mine", "");
  Create(3);
  EXPECT_TRUE(std::filesystem::exists(directory() + "/mine"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory()),
                          std::filesystem::directory_iterator()),
            1);
}

TEST_F(TensorBoard, RefusesWhatIsNoDirectory) {
  WriteFile(temporary_.path() + "/file", "");
  for (const std::string& path :
       {temporary_.path() + "/file", temporary_.path() + "/file/below",
        std::string("/dev/null"), std::string("/proc/none")}) {
    const auto file = TensorBoardFile::Create(path, 0);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(path));
  }
}

TEST_F(TensorBoard, ToldByADecoderThatNoticesAChangedBit) {
  const auto file = Create();
  ASSERT_TRUE(file->Append(1e9, 1, {{"a", 1}}).ok());
  const std::string bytes = ReadFile(file->path());
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] ^= 0x10;
    EXPECT_FALSE(DecodeTensorBoard(changed).ok()) << at;
    // A file that a killed writer left is no error.
    EXPECT_TRUE(DecodeTensorBoard(bytes.substr(0, at)).ok()) << at;
  }
}

}  // namespace
}  // namespace castor::cli
