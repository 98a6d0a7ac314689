#include "text/data/source_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/test_files.h"

namespace castor {
namespace {

using ::testing::AllOf;
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

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8,
                         Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// The bytes have a checksum, as the program zstd makes it.
std::string Zstd(const std::string& text) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress2(context, packed.data(), packed.size(),
                                     text.data(), text.size());
  EXPECT_FALSE(ZSTD_isError(size));
  ZSTD_freeCCtx(context);
  packed.resize(size);
  return packed;
}

// Rows of Parquet come from a Python with pyarrow (python/tests/parquet_test.py
// has a real one); here a shell's script stands for it.
class RowsTest : public testing::Test {
 protected:
  RowsTest() { WriteFile(Path(), "PAR1 and more"); }
  ~RowsTest() override { unsetenv("CASTOR_PYTHON"); }
  std::string Path() const { return directory_.path() + "/a.parquet"; }
  void PythonIs(const std::string& script) {
    const std::string path = directory_.path() + "/python";
    WriteFile(path, "#!/bin/sh\n" + script);
    ASSERT_EQ(chmod(path.c_str(), 0700), 0);
    setenv("CASTOR_PYTHON", path.c_str(), 1);
  }
  std::unique_ptr<SourceReader> Open() const {
    auto reader = SourceReader::Open(Path(), SourceCut::kLines);
    EXPECT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->CheckContent().value(), "");
    return *std::move(reader);
  }
  std::string Error() const {
    SourcePiece piece;
    const auto more = Open()->Next(&piece);
    EXPECT_EQ(more.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(more.status().message());
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(RowsTest, GivesWhatThePythonPrintsAndGoesOnWithin) {
  // It is given the program, and the file at its third descriptor.
  PythonIs(
      "[ \"$1\" = -c ] && echo 3 && echo '{\"a\": 1}' && cat /proc/self/fd/3 "
      "&& echo && echo '{\"a\": 3}'");
  const std::string lines = "{\"a\": 1}\nPAR1 and more\n{\"a\": 3}\n";
  const auto reader = Open();
  SourcePiece piece;
  ASSERT_TRUE(reader->Next(&piece).value());
  EXPECT_EQ(piece.bytes, lines);
  EXPECT_EQ(reader->bytes_taken(), reader->stamp().size_bytes);
  EXPECT_FALSE(reader->Next(&piece).value());

  const auto again = Open();
  ASSERT_TRUE(again->GoTo({.offset = 9, .line = 2}).ok());
  ASSERT_TRUE(again->Next(&piece).value());
  EXPECT_EQ(piece.bytes, lines.substr(9));
  EXPECT_EQ(piece.first_line, 2);
}

TEST_F(RowsTest, SaysWhyThereAreNone) {
  PythonIs("exit 3");
  EXPECT_THAT(Error(), AllOf(HasSubstr("pip install pyarrow"),
                             HasSubstr("/python\" has none")));
  PythonIs("echo 2; echo '{}'; echo 'Column 3 is damaged' >&2; exit 1");
  EXPECT_THAT(Error(), HasSubstr("by pyarrow: Column 3 is damaged"));
  PythonIs("echo 2; echo '{}'");
  EXPECT_THAT(Error(), HasSubstr("1 of 2 rows came"));
  PythonIs("echo many");
  EXPECT_THAT(Error(), HasSubstr("\"many\" came in place of"));
  PythonIs("kill -9 $$");
  EXPECT_THAT(Error(), HasSubstr("ended by signal 9"));
  setenv("CASTOR_PYTHON", "/no/such/python", 1);
  EXPECT_THAT(Error(), HasSubstr("\"/no/such/python\" cannot be started"));
}

// A reader that is not read to its end leaves no process behind.
TEST_F(RowsTest, EndsThePythonWithTheReader) {
  const std::string who = Path() + ".pid";
  PythonIs(
      absl::StrCat("echo $$ > ", who, "; echo 9; while :; do echo '{}'; done"));
  SourcePiece piece;
  ASSERT_TRUE(Open()->Next(&piece).value());
  int process = 0;
  ASSERT_TRUE(absl::SimpleAtoi(ReadFile(who), &process));
  EXPECT_EQ(kill(process, 0), -1);
}

class CompressedTest : public testing::TestWithParam<const char*> {
 protected:
  static std::string Pack(const std::string& text) {
    return GetParam() == std::string(".gz") ? Gzip(text) : Zstd(text);
  }
  std::string Path() { return directory_.path() + "/a.txt" + GetParam(); }
  // All that a reader of the file gives, with its error or "".
  std::pair<std::string, std::string> ReadAll(const std::string& packed) {
    WriteFile(Path(), packed);
    auto reader = SourceReader::Open(Path(), SourceCut::kText);
    EXPECT_TRUE(reader.ok()) << reader.status();
    std::string all;
    for (SourcePiece piece;;) {
      const auto more = (*reader)->Next(&piece);
      if (!more.ok()) {
        EXPECT_EQ(more.status().code(), absl::StatusCode::kInvalidArgument);
        return {all, std::string(more.status().message())};
      }
      if (!*more) {
        EXPECT_TRUE(all.empty() || piece.is_last);
        EXPECT_EQ((*reader)->bytes_taken(),
                  static_cast<int64_t>(packed.size()));
        return {all, ""};
      }
      all += piece.bytes;
    }
  }

  TemporaryDirectory directory_;
};
INSTANTIATE_TEST_SUITE_P(Each, CompressedTest, testing::Values(".gz", ".zst"));

TEST_P(CompressedTest, GivesWhatWasCompressed) {
  std::string text;
  for (int i = 0; i < 100'000; ++i)
    absl::StrAppend(&text, i * 7919 % 10007, " ");
  EXPECT_TRUE(ReadAll(Pack(text)).first == text);
  EXPECT_EQ(ReadAll(Pack("short")).first, "short");
  // "cat a.gz b.gz" makes such a file.
  EXPECT_EQ(ReadAll(Pack("one, ") + Pack("") + Pack("two")).first, "one, two");
  // A little of what is packed becomes much.
  const std::string zeros(4'000'000, '0');
  EXPECT_TRUE(ReadAll(Pack(zeros)).first == zeros);
}

TEST_P(CompressedTest, RefusesWhatIsDamaged) {
  std::string text;
  for (int i = 0; i < 20'000; ++i)
    absl::StrAppend(&text, i * 7919 % 10007, " ");
  const std::string packed = Pack(text);
  for (const size_t size :
       {size_t{1}, size_t{3}, packed.size() / 2, packed.size() - 1}) {
    EXPECT_THAT(ReadAll(packed.substr(0, size)).second,
                HasSubstr("file \"" + Path() + "\" is cut off"))
        << size;
  }
  EXPECT_THAT(ReadAll(packed + packed.substr(0, 9)).second,
              HasSubstr("is cut off"));
  std::string changed = packed;
  for (size_t i = 200; i < 260; ++i) changed[i] = static_cast<char>(i);
  EXPECT_THAT(ReadAll(changed).second, HasSubstr("file \"" + Path() +
                                                 "\" cannot be unpacked as a "
                                                 "file of "));
  EXPECT_THAT(ReadAll("plain text").second, HasSubstr("cannot be unpacked"));
  EXPECT_THAT(ReadAll(packed + "and more than that").second,
              HasSubstr("cannot be unpacked"));
}

}  // namespace
}  // namespace castor
