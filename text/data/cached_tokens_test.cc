#include "text/data/cached_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/directory_entry.h"
#include "base/host_name.h"
#include "base/lock_file.h"
#include "base/lock_wait.h"
#include "base/test_files.h"
#include "text/data/encodings_for_test.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CachedTokensTest : public testing::Test {
 protected:
  CachedTokensTest() : encoding_(EncodingForTest(EncodeLikeGpt2)) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) absl::StrAppend(&text, " word", i);
    text.erase(0, 1);
    WriteFile(Path("a.txt"), text);
  }
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  CachedTokensRequest Request(const std::string& name = "a.txt") {
    return {.path = Path(name),
            .tokenize = {.encoding = &encoding_,
                         .vocabulary = 50'000,
                         .progress = nullptr},
            .directory = "",
            .say = [this](absl::string_view line) {
              said_.push_back(std::string(line));
            }};
  }
  std::vector<std::string> Names() const {
    return *ListDirectory(directory_.path());
  }
  // Returns the messages of opening: that it made the cache, or why again.
  std::vector<std::string> Open(const CachedTokensRequest& request) {
    said_.clear();
    const auto cache = OpenCachedTokens(request);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return said_;
  }
  static bool Made(const std::vector<std::string>& said) {
    return !said.empty() && absl::StartsWith(said.back(), "tokenised \"");
  }

  TemporaryDirectory directory_;
  TextEncoding encoding_;
  std::vector<std::string> said_;
};

TEST_F(CachedTokensTest, IsMadeOnce) {
  const std::vector<std::string> said = Open(Request());
  EXPECT_THAT(said, ElementsAre(AllOf(HasSubstr("tokenised \""),
                                      HasSubstr("100002 tokens"),
                                      HasSubstr(CachePath(Request())))));
  EXPECT_THAT(
      Names(),
      ElementsAre("a.txt", testing::MatchesRegex("a.txt.castor-tokens-.{16}")));
  EXPECT_THAT(Open(Request()), IsEmpty());
}

TEST_F(CachedTokensTest, IsMadeAnewOfWhatHasChanged) {
  EXPECT_TRUE(Made(Open(Request())));
  const auto time = std::filesystem::last_write_time(Path("a.txt"));
  std::string text = ReadFile(Path("a.txt"));
  text[100'000] ^= 1;
  WriteFile(Path("a.txt"), text);
  // Not even its time tells.
  std::filesystem::last_write_time(Path("a.txt"), time);
  EXPECT_TRUE(Made(Open(Request())));
  EXPECT_THAT(Open(Request()), IsEmpty());
  // Another time alone is no change.
  std::filesystem::last_write_time(Path("a.txt"), time + std::chrono::hours(1));
  EXPECT_THAT(Open(Request()), IsEmpty());
  WriteFile(Path("a.txt"), text + "more");
  EXPECT_TRUE(Made(Open(Request())));
}

TEST_F(CachedTokensTest, EachTokenizerHasItsOwn) {
  EXPECT_TRUE(Made(Open(Request())));
  ++encoding_.checksum;
  EXPECT_TRUE(Made(Open(Request())));
  encoding_.end_of_document = -1;
  EXPECT_TRUE(Made(Open(Request())));
  encoding_.before.push_back(4);
  EXPECT_TRUE(Made(Open(Request())));
  std::swap(encoding_.before, encoding_.after);
  EXPECT_TRUE(Made(Open(Request())));
  EXPECT_EQ(Names().size(), 6u);
}

TEST_F(CachedTokensTest, ADamagedOneIsMadeAnew) {
  EXPECT_TRUE(Made(Open(Request())));
  const std::string path = CachePath(Request());
  const std::string good = ReadFile(path);
  const int64_t size = static_cast<int64_t>(good.size());
  ASSERT_GT(size, 200'000);
  for (const int64_t at : {int64_t{0}, int64_t{70'000}, size - 144 - 8,
                           size - 144, size - 80, size - 1}) {
    std::string bad = good;
    bad[at] ^= 4;
    WriteFile(path, bad);
    const std::vector<std::string> said = Open(Request());
    ASSERT_EQ(said.size(), 2u) << at;
    // Nobody need remove it.
    EXPECT_THAT(said[0], AllOf(HasSubstr(path), EndsWith("): it is made anew"),
                               Not(HasSubstr("remove"))));
    EXPECT_TRUE(Made(said));
    // The time when it was begun and the checksum over it differ.
    EXPECT_EQ(ReadFile(path).substr(0, size - 144), good.substr(0, size - 144));
  }
  for (const int64_t kept : {int64_t{0}, int64_t{10}, size / 2, size - 1}) {
    WriteFile(path, good.substr(0, kept));
    EXPECT_EQ(Open(Request()).size(), 2u) << kept;
  }
  WriteFile(path, good + "x");
  EXPECT_EQ(Open(Request()).size(), 2u);
}

TEST_F(CachedTokensTest, DamageThatComesLaterIsAnErrorWithTheWayOut) {
  const auto cache = OpenCachedTokens(Request());
  ASSERT_TRUE(cache.ok());
  std::string bad = ReadFile(CachePath(Request()));
  bad[70'000] ^= 4;
  WriteFile(CachePath(Request()), bad);  // the same file, written over
  int32_t token = 0;
  EXPECT_TRUE((*cache)->ReadTokens(0, 1, &token).ok());
  const absl::Status status = (*cache)->ReadTokens(40'000, 1, &token);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("bytes 65536 to 131072"), HasSubstr("remove it")));
}

TEST_F(CachedTokensTest, IsKeptWhereItIsAsked) {
  CachedTokensRequest request = Request();
  request.directory = Path("cache/of/tokens");
  EXPECT_TRUE(Made(Open(request)));
  EXPECT_THAT(Names(), ElementsAre("a.txt", "cache"));
  EXPECT_EQ(ListDirectory(request.directory)->size(), 1u);
  // Files of one name from elsewhere do not take each other's place.
  std::filesystem::create_directory(Path("other"));
  std::filesystem::copy(Path("a.txt"), Path("other/a.txt"));
  CachedTokensRequest other = Request("other/a.txt");
  other.directory = request.directory;
  EXPECT_TRUE(Made(Open(other)));
  EXPECT_EQ(ListDirectory(request.directory)->size(), 2u);
}

TEST_F(CachedTokensTest, SaysWhereElseItMayBeKept) {
  CachedTokensRequest request = Request();
  request.directory = Path("a.txt");
  const absl::Status status = OpenCachedTokens(request).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("the tokens cannot be kept in"),
                    HasSubstr("data.cache names another directory")));
}

TEST_F(CachedTokensTest, LeavesNothingWhereItFails) {
  const absl::Status none = OpenCachedTokens(Request("none.txt")).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  CachedTokensRequest request = Request();
  request.tokenize.vocabulary = 5;
  EXPECT_EQ(OpenCachedTokens(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Names(), ElementsAre("a.txt"));
  // The same holds for a cache that is there.
  EXPECT_TRUE(Made(Open(Request())));
  EXPECT_EQ(OpenCachedTokens(request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CachedTokensTest, AFullDiskLosesNothing) {
  const std::string path = CachePath(Request());
  WriteFile(path, "what was there");
  // Files may not become larger than this.
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  small = old;
  small.rlim_cur = 100'000;
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status status = OpenCachedTokens(Request()).status();
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("data.cache"));
  EXPECT_EQ(ReadFile(path), "what was there");
  EXPECT_EQ(Names().size(), 2u);
  EXPECT_TRUE(Made(Open(Request())));
}

TEST_F(CachedTokensTest, AKilledMakerLeavesNothingThatLasts) {
  const pid_t child = fork();
  if (child == 0) {
    CachedTokensRequest request = Request();
    encoding_.encode = [](absl::string_view text, std::vector<int32_t>* ids) {
      absl::SleepFor(absl::Milliseconds(200));
      return EncodeLikeGpt2(text, ids);
    };
    OpenCachedTokens(request).IgnoreError();
    _exit(0);
  }
  // Killed while it writes.
  const auto begun = [&] {
    for (const std::string& name : Names()) {
      if (absl::StrContains(name, ".tmp-")) return true;
    }
    return false;
  };
  while (!begun()) absl::SleepFor(absl::Milliseconds(1));
  kill(child, SIGKILL);
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFSIGNALED(how));
  EXPECT_EQ(Names().size(), 3u);  // its temporary, its lock
  EXPECT_TRUE(Made(Open(Request())));
  EXPECT_EQ(Names().size(), 2u);
}

TEST_F(CachedTokensTest, OfSeveralAtOnceOneMakesIt) {
  std::atomic<int> made = 0, encoded = 0;
  encoding_.encode = [&](absl::string_view text, std::vector<int32_t>* ids) {
    ++encoded;
    absl::SleepFor(absl::Milliseconds(3));
    return EncodeLikeGpt2(text, ids);
  };
  std::vector<std::thread> threads;
  std::vector<absl::Status> statuses(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      CachedTokensRequest request = Request();
      request.say = [&](absl::string_view line) {
        if (absl::StartsWith(line, "tokenised")) ++made;
      };
      statuses[i] = OpenCachedTokens(request).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(made, 1);
  EXPECT_THAT(Names(), testing::SizeIs(2));
}

// A directory in the place of the lock was waited for, for ever.
TEST_F(CachedTokensTest, NamesWhatIsInTheLocksPlace) {
  const std::string lock = CachePath(Request()) + ".lock";
  std::filesystem::create_directory(lock);
  const absl::Status status = OpenCachedTokens(Request()).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(lock), HasSubstr("no regular file: remove it")));
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(CachedTokensTest, WaitsForAnotherProcessNoLongerThanIsAllowed) {
  LockFile::Attempt held = LockFile::TryTake(CachePath(Request()) + ".lock");
  ASSERT_NE(held.lock, nullptr);
  ASSERT_TRUE(held.lock->Write(LockHolderText("")).ok());
  CachedTokensRequest request = Request();
  request.timeout_seconds = 0;
  const absl::Status status = OpenCachedTokens(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(absl::StrCat("process ", getpid())),
                    HasSubstr("data.cache_timeout_seconds")));
  EXPECT_EQ(Names().size(), 2u);  // the data, the lock
  // A lock that an ended holder left behind is not waited for at all.
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
  ASSERT_TRUE(held.lock
                  ->Write(absl::StrCat("{\"host\": \"", HostName(),
                                       "\", \"process\": ", gone, "}"))
                  .ok());
  const std::vector<std::string> said = Open(Request());
  EXPECT_TRUE(Made(said));
  EXPECT_THAT(said, testing::Contains(HasSubstr("has ended and left")));
}

// An entry with its name that is no file is not removed, since a directory
// would go with all that is in it.
TEST_F(CachedTokensTest, NamesWhatIsInItsPlace) {
  const std::string path = CachePath(Request());
  const auto error = [&] {
    const absl::Status status = OpenCachedTokens(Request()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  std::filesystem::create_directory(path);
  WriteFile(path + "/kept", "");
  EXPECT_THAT(error(), AllOf(HasSubstr(path), HasSubstr("is a directory"),
                             EndsWith("remove it")));
  EXPECT_EQ(ReadFile(path + "/kept"), "");
  std::filesystem::remove_all(path);
  std::filesystem::create_symlink("nowhere", path);
  EXPECT_THAT(error(), HasSubstr("is a link to \"nowhere\""));
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(error(), HasSubstr("is a pipe"));
}

// A cache's name can be foreseen, and its checksums are no secret: one that
// others can write to is made anew.
TEST_F(CachedTokensTest, OneThatOthersMayWriteToIsMadeAnew) {
  EXPECT_TRUE(Made(Open(Request())));
  const std::string path = CachePath(Request());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0022, 0u);
  for (const mode_t mode : {0664, 0646}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const std::vector<std::string> said = Open(Request());
    ASSERT_EQ(said.size(), 2u);
    EXPECT_THAT(said[0], HasSubstr("can be written to by other users: it is "
                                   "made anew"));
    EXPECT_TRUE(Made(said));
  }
  // Whatever the umask allows.
  const mode_t before = umask(0);
  std::filesystem::remove(path);
  EXPECT_TRUE(Made(Open(Request())));
  umask(before);
  EXPECT_THAT(Open(Request()), IsEmpty());
}

// Another user's has right checksums and other tokens; it stays, as in a sticky
// folder it must, and is not used.
TEST_F(CachedTokensTest, AnotherUsersIsKeptApartFrom) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  EXPECT_TRUE(Made(Open(Request())));
  const std::string path = CachePath(Request());
  const std::string own = absl::StrCat(path, "-u", geteuid());
  if (chown(path.c_str(), 65534, 65534) != 0) {
    GTEST_SKIP() << "there is no other user here";
  }
  const std::vector<std::string> said = Open(Request());
  ASSERT_EQ(said.size(), 2u);
  EXPECT_THAT(said[0], AllOf(HasSubstr("belongs to another user"),
                             HasSubstr("65534"), HasSubstr(own)));
  EXPECT_TRUE(Made(said));
  EXPECT_TRUE(std::filesystem::exists(path));
  // The next time it is told again, and nothing is made.
  EXPECT_EQ(Open(Request()).size(), 1u);
  // That user's link to a file of ours is not followed either, and a file that
  // only that user can use is not used.
  std::filesystem::remove(path);
  std::filesystem::create_symlink(own, path);
  ASSERT_EQ(lchown(path.c_str(), 65534, 65534), 0);
  EXPECT_THAT(Open(Request()),
              ElementsAre(HasSubstr("belongs to another user")));
  ASSERT_EQ(chown(own.c_str(), 65534, 65534), 0);
  const absl::Status status = OpenCachedTokens(Request()).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("data.cache"));
}

}  // namespace
}  // namespace castor
