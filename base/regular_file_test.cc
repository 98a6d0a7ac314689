#include "base/regular_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

absl::Status StatusOf(const std::string& path) {
  const auto file = OpenRegularFile(path);
  if (file.ok()) close(file->fd);
  return file.status();
}

// An entry that is no file is never reported as missing.
TEST(OpenRegularFile, SaysWhatIsThere) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/x";
  EXPECT_EQ(StatusOf(path).code(), absl::StatusCode::kNotFound);
  const auto expect = [&](const std::string& what) {
    const absl::Status status = StatusOf(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    std::filesystem::remove(path);
  };
  std::filesystem::create_directory(path);
  expect("is a directory");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect("is a pipe");
  std::filesystem::create_symlink("/dev/null", path);
  expect("is a device");
  std::filesystem::create_symlink("gone", path);
  expect("is a link to \"gone\", which is not there");
  std::filesystem::create_symlink("x", path);
  expect("cannot be opened: Too many levels");
  WriteFile(directory.path() + "/file", "four");
  std::filesystem::create_symlink("file", path);
  const auto file = OpenRegularFile(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->info.st_size, 4);
  close(file->fd);
}

TEST(CheckOwnFile, TrustsTheUserAndRootAlone) {
  struct stat info = {};
  info.st_mode = S_IFREG | 0644;
  info.st_uid = geteuid();
  EXPECT_TRUE(CheckOwnFile(info).ok());
  info.st_uid = 0;
  EXPECT_TRUE(CheckOwnFile(info).ok());
  info.st_mode = S_IFREG | 0664;
  EXPECT_FALSE(CheckOwnFile(info).ok());
  info.st_mode = S_IFREG | 0646;
  EXPECT_FALSE(CheckOwnFile(info).ok());
  info.st_mode = S_IFREG | 0600;
  info.st_uid = geteuid() + 1;
  EXPECT_FALSE(CheckOwnFile(info).ok());
}

}  // namespace
}  // namespace castor
