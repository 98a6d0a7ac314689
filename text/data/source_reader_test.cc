#include "text/data/source_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

class SourceReaderTest : public testing::Test {
 protected:
  std::string Path() { return directory_.path() + "/source"; }
  std::vector<SourcePiece> ReadLines(const std::string& text,
                                     int64_t max_line_bytes,
                                     absl::Status* status) {
    WriteFile(Path(), text);
    auto reader = SourceReader::Open(Path(), SourceCut::kLines, max_line_bytes);
    EXPECT_TRUE(reader.ok()) << reader.status();
    std::vector<SourcePiece> pieces;
    for (SourcePiece piece;;) {
      const auto more = (*reader)->Next(&piece);
      *status = more.status();
      if (!more.ok() || !*more) return pieces;
      pieces.push_back(piece);
    }
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(SourceReaderTest, GivesWholeLinesAndTheirNumbers) {
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    absl::StrAppend(&text, std::string(i == 1000 ? 400'000 : i % 500, 'x'),
                    i == 2999 ? "" : "\n");
  }
  absl::Status status;
  const std::vector<SourcePiece> pieces = ReadLines(text, 1 << 20, &status);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_GT(pieces.size(), 4u);
  std::string all;
  for (const SourcePiece& piece : pieces) {
    EXPECT_EQ(piece.first_line, 1 + std::count(all.begin(), all.end(), '\n'));
    EXPECT_EQ(piece.is_first, all.empty());
    all += piece.bytes;
    EXPECT_EQ(piece.is_last, all.size() == text.size());
    EXPECT_TRUE(piece.is_last || piece.bytes.back() == '\n');
  }
  EXPECT_TRUE(all == text);
}

TEST_F(SourceReaderTest, BoundsALine) {
  constexpr int64_t kMax = 300'000;
  absl::Status status;
  const std::string longest(kMax, 'x');
  for (const char* begin : {"", "a\n"}) {
    for (const char* end : {"", "\n", "\nb"}) {
      ReadLines(absl::StrCat(begin, longest, end), kMax, &status);
      EXPECT_TRUE(status.ok()) << status;
      ReadLines(absl::StrCat(begin, longest, "x", end), kMax, &status);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("line ", *begin == 0 ? 1 : 2,
                                         " is longer than 293 KiB")));
    }
  }
}

TEST_F(SourceReaderTest, SaysThatTheFileIsNotWhatItWas) {
  WriteFile(Path(), std::string(3'000'000, 'x'));
  auto reader = SourceReader::Open(Path(), SourceCut::kText);
  ASSERT_TRUE(reader.ok());
  SourcePiece piece;
  ASSERT_TRUE((*reader)->Next(&piece).ok());
  EXPECT_TRUE((*reader)->CheckUnchanged().ok());
  ASSERT_EQ(truncate(Path().c_str(), 2'000'000), 0);
  EXPECT_EQ((*reader)->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
  absl::StatusOr<bool> more = true;
  while (more.ok() && *more) more = (*reader)->Next(&piece);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SourceReaderTest, RefusesWhatIsNoFileOfBytes) {
  const auto code = [&] {
    return SourceReader::Open(Path(), SourceCut::kText).status().code();
  };
  EXPECT_EQ(code(), absl::StatusCode::kNotFound);
  WriteFile(Path(), "");
  EXPECT_EQ(code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(unlink(Path().c_str()), 0);
  ASSERT_EQ(mkfifo(Path().c_str(), 0600), 0);
  EXPECT_EQ(code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor
