#include "base/disk_room.h"

#include <filesystem>
#include <string>

#include "base/test_files.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

TEST(DiskRoom, CountsWhatRemovingWouldGiveBack) {
  const TemporaryDirectory dir;
  std::filesystem::create_directories(dir.path() + "/a/b");
  const std::string text(100'000, 'x');
  const int64_t empty = BytesOnDisk(dir.path() + "/a");
  WriteFile(dir.path() + "/a/one", text);
  WriteFile(dir.path() + "/a/b/two", text);
  EXPECT_GE(BytesOnDisk(dir.path() + "/a/one"), 100'000);
  EXPECT_GE(BytesOnDisk(dir.path() + "/a") - empty, 200'000);
  EXPECT_LT(BytesOnDisk(dir.path() + "/a") - empty, 400'000);
  // It would stay under its other name.
  std::filesystem::create_hard_link(dir.path() + "/a/one", dir.path() + "/c");
  EXPECT_EQ(BytesOnDisk(dir.path() + "/a/one"), 0);
  // A link counts as itself, wherever it leads.
  std::filesystem::create_symlink("a", dir.path() + "/link");
  EXPECT_LT(BytesOnDisk(dir.path() + "/link"), 100'000);
  EXPECT_EQ(BytesOnDisk(dir.path() + "/none"), 0);
}

TEST(DiskRoom, SaysWhatIsFree) {
  const TemporaryDirectory dir;
  const auto free_bytes = FreeDiskBytes(dir.path());
  ASSERT_TRUE(free_bytes.ok()) << free_bytes.status();
  EXPECT_GT(*free_bytes, 0);
  EXPECT_EQ(FreeDiskBytes(dir.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace castor
