#include "tracer/append_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"

namespace {

// Called once, just before a file grows.
std::function<void()> before_growth;

}  // namespace

// Takes the place of the C library's own function in this program.
extern "C" int posix_fallocate(int fd, off_t offset, off_t length) {
  if (before_growth) std::exchange(before_growth, nullptr)();
  return fallocate(fd, 0, offset, length) == 0 ? 0 : errno;
}

namespace castor {
namespace {

using ::testing::HasSubstr;

std::string TemporaryPath(const char* name) {
  const char* base = std::getenv("TEST_TMPDIR");
  return absl::StrCat(base == nullptr ? "/tmp" : base, "/", getpid(), name);
}

// Reads the file at once: character by character, a sanitizer makes it take
// half a minute.
std::string Contents(const std::string& path) {
  std::string text(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary)
      .read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

// Lines of several lengths, together more than two windows.
std::string Line(int i) {
  return absl::StrCat(i, " ", std::string(i * 37 % 5000, 'a' + i % 26), "\n");
}

TEST(AppendFile, HoldsAllLinesAndNothingElse) {
  const std::string path = TemporaryPath("lines");
  std::ofstream(path) << "what was there before";
  std::string expected;
  {
    auto file = AppendFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE((*file)->Append(Line(i)).ok());
      expected += Line(i);
      if (i % 100 != 0) continue;
      // Readable at once, with zeros after it.
      const std::string now = Contents(path);
      EXPECT_TRUE(now.substr(0, expected.size()) == expected);
      EXPECT_EQ(now.find_first_not_of('\0', expected.size()),
                std::string::npos);
    }
  }
  EXPECT_GT(expected.size(), size_t{2} << 20);
  EXPECT_TRUE(Contents(path) == expected);
  std::filesystem::remove(path);
}

TEST(AppendFile, IsCompleteWhenItsProcessIsKilled) {
  const std::string path = TemporaryPath("killed");
  for (int round = 0; round < 8; ++round) {
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto file = AppendFile::Create(path);
      if (!file.ok()) _exit(1);
      for (int i = 0;; ++i) {
        if (!(*file)->Append(Line(i)).ok()) _exit(1);
        if (write(told[1], &i, sizeof(i)) != sizeof(i)) _exit(1);
      }
    }
    // Some lines, then death in whatever it is doing.
    int last = -1;
    for (int i = 0; i < 40 * round + 1; ++i) {
      ASSERT_EQ(read(told[0], &last, sizeof(last)),
                static_cast<ssize_t>(sizeof(last)));
    }
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    close(told[1]);
    for (int more; read(told[0], &more, sizeof(more)) == sizeof(more);) {
      last = more;
    }
    close(told[0]);
    std::string text = Contents(path);
    text.resize(text.find_last_not_of('\0') + 1);
    std::string expected;
    for (int i = 0; i <= last; ++i) expected += Line(i);
    // The text has all lines that were appended, then perhaps some bytes of one
    // more, in whatever order they were copied, but without its end; or all of
    // that line.
    ASSERT_TRUE(text.substr(0, expected.size()) == expected);
    const std::string rest = text.substr(expected.size());
    EXPECT_TRUE(rest.find('\n') == std::string::npos || rest == Line(last + 1));
  }
  std::filesystem::remove(path);
}

TEST(AppendFile, WritesWhereNothingCanBeMapped) {
  auto file = AppendFile::Create("/dev/null");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Append("a\n").ok());
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  auto full = AppendFile::Create("/dev/full");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ((*full)->Append("a\n").code(), absl::StatusCode::kUnavailable);
}

TEST(AppendFile, ReportsThatThereIsNoMoreRoom) {
  const std::string path = TemporaryPath("limited");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // The limit does what a full disk does: the file may not grow beyond it.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {3 << 20, 3 << 20};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    auto file = AppendFile::Create(path);
    if (!file.ok()) _exit(2);
    const std::string line = std::string(1 << 16, 'x') + "\n";
    for (int i = 0; i < 100; ++i) {
      const absl::Status status = (*file)->Append(line);
      if (status.ok()) continue;
      file->reset();
      // Nothing is there of the line that was too much.
      if (Contents(path).size() != i * line.size()) _exit(5);
      // The file stays as it is when there is no room for another one.
      const rlimit less = {1 << 19, 3 << 20};
      if (setrlimit(RLIMIT_FSIZE, &less) != 0) _exit(6);
      if (AppendFile::Create(path).ok()) _exit(7);
      if (Contents(path).size() != i * line.size()) _exit(8);
      _exit(absl::IsUnavailable(status) && i > 30 ? 0 : 3);
    }
    _exit(4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::filesystem::remove(path);
}

// The file is cut as `> FILE` and logrotate's copytruncate do it: the pages
// behind the new end are gone from under the mapping.
TEST(AppendFile, OutlivesItsFileBeingCut) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  for (const int lines : {1, 100, 430}) {  // 430: in the second window
    for (const double share : {0.0, 0.001, 0.5, 0.99}) {
      auto file = AppendFile::Create(path);
      ASSERT_TRUE(file.ok()) << file.status();
      for (int i = 0; i < lines; ++i) {
        ASSERT_TRUE((*file)->Append(Line(i)).ok());
      }
      ASSERT_TRUE((*file)->Check().ok());
      const auto cut =
          static_cast<int64_t>(share * static_cast<double>((*file)->size()));
      std::filesystem::resize_file(path, cut);
      EXPECT_EQ((*file)->Check().code(), absl::StatusCode::kUnavailable);
      // Appending fails at the latest when there is no more room in the page,
      // or the window.
      absl::Status status;
      for (int i = lines; status.ok() && i < lines + 1000; ++i) {
        status = (*file)->Append(Line(i));
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("was cut or written to by somebody else"));
      file->reset();
      // The file stays as the one who cut it left it.
      EXPECT_EQ(static_cast<int64_t>(std::filesystem::file_size(path)), cut);
    }
  }
}

// Growth would hide the cut: the file has the expected length again.
TEST(AppendFile, NoticesACutJustBeforeItGrows) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  for (const int64_t cut : {int64_t{0}, MappedWindow::kBytes - 1}) {
    auto file = AppendFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    before_growth = [&] { std::filesystem::resize_file(path, cut); };
    absl::Status status;
    for (int i = 0; status.ok() && i < 1000; ++i) {
      status = (*file)->Append(Line(i));
    }
    EXPECT_FALSE(before_growth);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("was cut or written to by somebody else"));
    EXPECT_LT((*file)->size(), MappedWindow::kBytes);
  }
}

// The cut may also come in the middle of a copy.
TEST(AppendFile, OutlivesItsFileBeingCutAtAnyMoment) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  for (int round = 0; round < 4; ++round) {
    auto file = AppendFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    std::atomic<bool> is_cut = false;
    std::thread other([&] {
      const auto size = [&] {
        return static_cast<int64_t>(std::filesystem::file_size(path));
      };
      while (size() < MappedWindow::kBytes * (1 + round % 2)) {
      }
      for (int i = 0; i < round; ++i) std::this_thread::yield();
      ASSERT_EQ(truncate(path.c_str(), 0), 0);
      is_cut = true;
    });
    absl::Status status;
    // A window holds some 420 lines.
    for (int after = 0; status.ok() && after < 1000; after += is_cut ? 1 : 0) {
      status = (*file)->Append(Line(after));
    }
    other.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  }
}

TEST(AppendFile, LeavesAFileAloneThatIsStillWritten) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  EXPECT_FALSE(IsBeingAppended(path));
  auto first = AppendFile::Create(path);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(IsBeingAppended(path));
  ASSERT_TRUE((*first)->Append("first 1\n").ok());
  auto second = AppendFile::Create(path);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_TRUE((*second)->Append("second 1\n").ok());
  auto third = AppendFile::Create(path);
  ASSERT_TRUE(third.ok()) << third.status();
  ASSERT_TRUE((*first)->Append("first 2\n").ok());
  ASSERT_TRUE((*first)->Check().ok()) << (*first)->Check();
  ASSERT_TRUE((*second)->Append("second 2\n").ok());
  EXPECT_EQ((*first)->Place().value_or(""), path + ".replaced-1");
  EXPECT_EQ((*second)->Place().value_or(""), path + ".replaced-2");
  EXPECT_EQ((*third)->Place().value_or(""), path);
  first->reset();
  second->reset();
  third->reset();
  EXPECT_EQ(ReadFile(path + ".replaced-1"), "first 1\nfirst 2\n");
  EXPECT_EQ(ReadFile(path + ".replaced-2"), "second 1\nsecond 2\n");
  EXPECT_EQ(ReadFile(path), "");
  EXPECT_FALSE(IsBeingAppended(path));
  // A finished one has had its time.
  ASSERT_TRUE(AppendFile::Create(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".replaced-3"));
}

TEST(AppendFile, SaysThatItsFileIsGone) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/t";
  auto file = AppendFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::rename(path, path + ".1");
  EXPECT_TRUE((*file)->Check().ok());
  EXPECT_EQ((*file)->Place().value_or(""), path + ".1");
  std::filesystem::remove(path + ".1");
  EXPECT_THAT(std::string((*file)->Check().message()), HasSubstr("removed"));
  EXPECT_EQ((*file)->Place().status().code(), absl::StatusCode::kUnavailable);
  // Long before a disk is filled for nobody.
  absl::Status status;
  for (int i = 0; status.ok() && i < 1000; ++i) {
    status = (*file)->Append(Line(i));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST(AppendFile, ReplacesWhatALinkLeadsTo) {
  TemporaryDirectory directory;
  const std::string file = directory.path() + "/file";
  const std::string link = directory.path() + "/link";
  WriteFile(file, "before");
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  std::filesystem::create_symlink("file", link);
  auto created = AppendFile::Create(link);
  ASSERT_TRUE(created.ok()) << created.status();
  ASSERT_TRUE((*created)->Append("after\n").ok());
  created->reset();
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(ReadFile(file), "after\n");
  struct stat info;
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(AppendFile, NamesAFileThatCannotBeCreated) {
  const auto file = AppendFile::Create("/no/such/dir/t");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(file.status().message().find("/no/such/dir/t"), std::string::npos);
}

}  // namespace
}  // namespace castor
