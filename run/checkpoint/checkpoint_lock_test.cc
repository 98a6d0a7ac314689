#include "run/checkpoint/checkpoint_lock.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/host_name.h"
#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string RefusalOf(const std::string& directory) {
  const auto lock = CheckpointLock::Take(directory, "other");
  EXPECT_EQ(lock.status().code(), absl::StatusCode::kFailedPrecondition);
  return std::string(lock.status().message());
}

TEST(CheckpointLock, SaysWhoHasTheDirectory) {
  const TemporaryDirectory dir;
  auto lock = CheckpointLock::Take(dir.path(), "0123");
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_THAT(RefusalOf(dir.path()),
              AllOf(HasSubstr(dir.path()), HasSubstr(HostName()),
                    HasSubstr(absl::StrCat("process ", getpid())),
                    HasSubstr("0123"), HasSubstr("checkpoint.dir")));
  ASSERT_TRUE((*lock)->SetRun("4567").ok());
  EXPECT_THAT(RefusalOf(dir.path()),
              AllOf(HasSubstr("4567"), Not(HasSubstr("0123"))));
  lock->reset();
  EXPECT_TRUE(CheckpointLock::Take(dir.path(), "other").ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

// Whatever is in the file, there is one line without control characters.
TEST(CheckpointLock, IsHeldWhateverItsFileSays) {
  const TemporaryDirectory dir;
  const auto lock = CheckpointLock::Take(dir.path(), "0123");
  ASSERT_TRUE(lock.ok()) << lock.status();
  for (const char* text : {"", "{", "[]", "{\"host\": 1, \"process\": \"x\"}",
                           "{\"host\": \"\\u001b[31m\\n\"}"}) {
    WriteFile(dir.path() + "/" + CheckpointLock::kName, text);
    EXPECT_THAT(RefusalOf(dir.path()),
                AllOf(HasSubstr(absl::StrCat("in use by process ", getpid())),
                      Not(HasSubstr("\n")), Not(HasSubstr("\033"))));
  }
}

TEST(CheckpointLock, NamesWhatIsInItsPlace) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/" + CheckpointLock::kName;
  std::filesystem::create_directory(path);
  const absl::Status status =
      CheckpointLock::Take(dir.path(), "other", {.timeout_seconds = 3600})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(path), HasSubstr("no regular file: remove it")));
}

TEST(CheckpointLock, WantsTheDirectory) {
  const TemporaryDirectory dir;
  EXPECT_EQ(CheckpointLock::Take(dir.path() + "/none", "x").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace castor
