#include "base/small_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/test_files.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

class FindFileTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  absl::StatusOr<bool> Find(const std::string& name) const {
    return FindFile(directory_.path(), name);
  }
  void ExpectRefused(const std::string& name, const std::string& why) const {
    const auto found = Find(name);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition)
        << name;
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(why));
  }

  TemporaryDirectory directory_;
};

TEST_F(FindFileTest, FindsFilesAndLinksToThem) {
  WriteFile(Path("a"), "");
  ASSERT_EQ(symlink("a", Path("link").c_str()), 0);
  EXPECT_TRUE(Find("a").value());
  EXPECT_TRUE(Find("link").value());
  EXPECT_FALSE(Find("b").value());
  EXPECT_FALSE(Find("no/such/directory").value());
  EXPECT_FALSE(Find("a/below a file").value());
}

TEST_F(FindFileTest, RefusesWhatIsThereAndCannotBeRead) {
  ASSERT_EQ(symlink("gone", Path("dangling").c_str()), 0);
  ASSERT_EQ(symlink("/dev/zero", Path("device").c_str()), 0);
  ASSERT_EQ(mkdir(Path("folder").c_str(), 0755), 0);
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0644), 0);
  ExpectRefused("dangling", "is a link to gone, which is not there");
  ExpectRefused("device", "is a device, not a file");
  ExpectRefused("folder", "is a directory, not a file");
  ExpectRefused("fifo", "is a FIFO, not a file");
  ASSERT_EQ(symlink("ring", Path("ring").c_str()), 0);
  EXPECT_FALSE(Find("ring").ok());
  WriteFile(Path("secret"), "");
  ASSERT_EQ(chmod(Path("secret").c_str(), 0), 0);
  if (geteuid() == 0) return;  // the superuser may read everything
  ExpectRefused("secret", "no permission to read");
}

}  // namespace
}  // namespace castor
