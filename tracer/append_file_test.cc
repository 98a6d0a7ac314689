#include "tracer/append_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"

namespace castor {
namespace {

std::string TemporaryPath(const char* name) {
  const char* base = std::getenv("TEST_TMPDIR");
  return absl::StrCat(base == nullptr ? "/tmp" : base, "/", getpid(), name);
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
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
    // All that was appended, then perhaps some bytes of one more, in whatever
    // order they were copied, but without its end; or all of that line.
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
    // As a full disk does: the file may not grow beyond this.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {3 << 20, 3 << 20};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    auto file = AppendFile::Create(path);
    if (!file.ok()) _exit(2);
    const std::string line = std::string(1 << 16, 'x') + "\n";
    for (int i = 0; i < 100; ++i) {
      const absl::Status status = (*file)->Append(line);
      if (status.ok()) continue;
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

TEST(AppendFile, NamesAFileThatCannotBeCreated) {
  const auto file = AppendFile::Create("/no/such/dir/t");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(file.status().message().find("/no/such/dir/t"), std::string::npos);
}

}  // namespace
}  // namespace castor
