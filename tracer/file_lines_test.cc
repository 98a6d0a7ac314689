#include "tracer/file_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/test_files.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FileLines : public ::testing::Test {
 protected:
  // The file's lines, and whether something follows the last.
  struct Result {
    std::vector<std::string> lines;
    absl::StatusOr<bool> rest;
  };
  Result Read(const FileLineLimits& limits = kLarge) const {
    Result result;
    result.rest = ForEachLine(path_, limits, [&](absl::string_view line) {
      result.lines.emplace_back(line);
      return true;
    });
    return result;
  }
  Result ReadText(const std::string& text,
                  const FileLineLimits& limits = kLarge) const {
    WriteFile(path_, text);
    return Read(limits);
  }

  static constexpr FileLineLimits kLarge = {.max_bytes = int64_t{1} << 40,
                                            .max_line_bytes = 4 << 20};
  TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/file";
};

TEST_F(FileLines, EndWithANewline) {
  EXPECT_THAT(ReadText("").lines, ElementsAre());
  EXPECT_EQ(ReadText("").rest.value(), false);
  EXPECT_THAT(ReadText("a\n\nbc\n").lines, ElementsAre("a", "", "bc"));
  EXPECT_EQ(ReadText("a\n\nbc\n").rest.value(), false);
  EXPECT_THAT(ReadText("a\nbc").lines, ElementsAre("a"));
  EXPECT_EQ(ReadText("a\nbc").rest.value(), true);
}

TEST_F(FileLines, MayHaveZerosBehindThem) {
  const std::string zeros(1'000'000, '\0');
  EXPECT_THAT(ReadText("a\n" + zeros).lines, ElementsAre("a"));
  EXPECT_EQ(ReadText("a\n" + zeros).rest.value(), false);
  EXPECT_EQ(ReadText("a\nb" + zeros).rest.value(), true);
  EXPECT_THAT(ReadText("a\n" + zeros + "b\n").lines,
              ElementsAre("a", zeros + "b"));
  EXPECT_THAT(ReadText("a\n" + zeros + "\n").lines, ElementsAre("a", zeros));
}

TEST_F(FileLines, AreTheSameHoweverTheyLieInPieces) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::string text;
    std::vector<std::string> expected;
    while (text.size() < 1'500'000) {
      std::string line(random() % 4 == 0 ? random() % 600'000 : random() % 50,
                       random() % 3 == 0 ? '\0' : 'x');
      if (random() % 2 == 0) line += 'y';
      text += line + "\n";
      expected.push_back(std::move(line));
    }
    const Result result = ReadText(text);
    EXPECT_EQ(result.rest.value(), false);
    EXPECT_TRUE(result.lines == expected) << round;
  }
}

TEST_F(FileLines, StopWhenTheyAreAskedTo) {
  WriteFile(path_, "a\nb\nc\n");
  int lines = 0;
  EXPECT_TRUE(ForEachLine(path_, kLarge, [&](absl::string_view) {
                return ++lines < 2;
              }).ok());
  EXPECT_EQ(lines, 2);
}

TEST_F(FileLines, AreCutWhereTheyAreTooLong) {
  const FileLineLimits limits = {.max_bytes = 10'000'000,
                                 .max_line_bytes = 500'000};
  for (const char filler : {'x', '\0'}) {
    const std::string fits(500'000, filler);
    EXPECT_THAT(ReadText(fits + "\na\n", limits).lines, ElementsAre(fits, "a"));
    const std::string longer = fits + filler;
    for (const char* end : {"\na\n", "y\na\n", "yyyyy"}) {
      const Result result = ReadText(longer + end, limits);
      ASSERT_EQ(result.lines.size(), 1u);
      EXPECT_GT(result.lines[0].size(), 500'000u);
      EXPECT_LT(result.lines[0].size(), 1'000'000u);
    }
  }
}

TEST_F(FileLines, ComeFromAFileThatMayBeRead) {
  EXPECT_EQ(Read().rest.status().code(), absl::StatusCode::kNotFound);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(std::string(Read().rest.status().message()),
              HasSubstr("is no regular file"));
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);  // nor does it hang
  EXPECT_EQ(Read().rest.status().code(), absl::StatusCode::kInvalidArgument);
}

// The lines are read in a small part of the memory that the file would take.
TEST_F(FileLines, OfALargeFileTakeLittleMemory) {
  WriteFile(path_, "a\n");
  std::filesystem::resize_file(path_, int64_t{256} << 20);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    const Result all = Read();
    getrusage(RUSAGE_SELF, &after);
    if (!all.rest.ok() || *all.rest || all.lines.size() != 1) _exit(1);
    _exit(after.ru_maxrss - before.ru_maxrss < 10 << 10 ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // A file that is larger than it may be is not read at all.
  const Result refused = Read({.max_bytes = 1 << 20, .max_line_bytes = 100});
  EXPECT_EQ(refused.rest.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.rest.status().message()),
              HasSubstr("is larger than 1.00 MiB"));
  EXPECT_TRUE(refused.lines.empty());
}

}  // namespace
}  // namespace castor
