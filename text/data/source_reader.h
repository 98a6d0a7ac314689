// Reads a file of text or records from its begin to its end, in pieces that can
// be worked on independently.
#ifndef CASTOR_TEXT_DATA_SOURCE_READER_H_
#define CASTOR_TEXT_DATA_SOURCE_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/data/source_bytes.h"

namespace castor {

// The content of a file, by the end of its name without that of its
// compression.
enum class SourceContent : uint8_t {
  kText,     // .txt: one document
  kLines,    // .jsonl: records, one a line
  kList,     // .json: a list of records (record_lines.h)
  kTable,    // .csv: records, after a row that names their keys (the same)
  kRows,     // .parquet: records (parquet_rows.h)
  kTokens,   // .bin, .npy: tokens, not compressed
  kUnknown,  // anything else
};
SourceContent ContentByName(absl::string_view path);
// The known ends of names, for messages.
inline constexpr absl::string_view kDataEndings =
    ".txt, .jsonl, .json, .csv (these also with .gz or .zst), .parquet, .bin "
    "or .npy";

// Returns the word for a numbered place in the file at `path`, for messages:
// "line", or "record" or "row" in a file that is not one of lines.
absl::string_view PlaceWord(absl::string_view path);

// A stamp tells whether a file is still the one that was read.
struct SourceStamp {
  int64_t size_bytes = 0;
  int64_t modified_ns = 0;  // since 1970

  friend bool operator==(const SourceStamp&, const SourceStamp&) = default;
};

// How a file is cut into pieces.
enum class SourceCut : uint8_t {
  kText,   // as text_cut.h says
  kLines,  // whole lines; all lines but the last end with '\n'. Those of a
           // list, a table and rows are as record_lines.h and parquet_rows.h
           // make them
};

// The longest line, so that the bytes that are read at once are bounded.
inline constexpr int64_t kMaxLineBytes = int64_t{32} << 20;

struct SourcePiece {
  std::string bytes;
  int64_t first_line = 1;  // the number of the line that it begins in
  bool is_first = false, is_last = false;
  // True if it begins with a single space between two characters that are none.
  bool is_between_words = false;
};

// Where a piece begins.
struct SourcePlace {
  int64_t offset = 0;  // bytes that pieces before it have
  int64_t line = 1;    // SourcePiece::first_line
};

// Not thread-safe.
class SourceReader {
 public:
  // Opens a file. If it is compressed, by its name, it is unpacked. NotFound:
  // no such file. InvalidArgument: it is empty or no regular file; says what it
  // is.
  static absl::StatusOr<std::unique_ptr<SourceReader>> Open(
      const std::string& path, SourceCut cut,
      int64_t max_line_bytes = kMaxLineBytes);
  ~SourceReader();
  SourceReader(const SourceReader&) = delete;
  SourceReader& operator=(const SourceReader&) = delete;

  const std::string& path() const { return path_; }
  const SourceStamp& stamp() const { return stamp_; }  // when it was opened

  // Reads the next piece. Returns false if there is no more. InvalidArgument: a
  // line, whose number is given, is longer than max_line_bytes; or the file
  // cannot be unpacked or turned into lines (source_bytes.h, record_lines.h,
  // parquet_rows.h). DataLoss: the disk cannot read the file, or it is not as
  // long as it was.
  absl::StatusOr<bool> Next(SourcePiece* piece);

  // The place where the next piece begins. From there a new reader of the file
  // goes on with the same pieces, its checksum apart; bytes that cannot be
  // jumped over are unpacked again. InvalidArgument: the file ends before it,
  // or has no line that begins there.
  SourcePlace place() const { return {given_, line_}; }
  absl::Status GoTo(const SourcePlace& place);

  // Checks the first bytes. InvalidArgument: the file holds something else than
  // text or lines (base/foreign_content.h); says what that is. Returns a
  // description of a text that may have been meant as it is, or "".
  absl::StatusOr<absl::string_view> CheckContent() const;

  // Checks the file's stamp. DataLoss: the file was written to since it was
  // opened.
  absl::Status CheckUnchanged() const;

  // The checksum (XXH3-64) of all that Next has given.
  uint64_t checksum() const;
  // How many of the file's own bytes were read, of stamp().size_bytes.
  int64_t bytes_taken() const { return taken_; }
  // How many bytes of pieces one byte of the file makes, as far as it was read.
  double bytes_per_file_byte() const;

 private:
  struct Hash;
  SourceReader(std::string path, int fd, const SourceStamp& stamp,
               SourceCut cut, int64_t max_line_bytes);
  absl::Status Fill(int64_t wanted);
  absl::StatusOr<int64_t> EndOfPiece();

  const std::string path_;
  const int fd_;
  const SourceStamp stamp_;
  const SourceCut cut_;
  const int64_t max_line_bytes_;
  const std::unique_ptr<Hash> hash_;
  const std::unique_ptr<SourceBytes> bytes_;
  std::string buffer_;  // read; `begin_` bytes of it are given
  int64_t begin_ = 0;
  bool ended_ = false;  // no more can be read into the buffer
  int64_t taken_ = 0;
  int64_t given_ = 0;
  int64_t line_ = 1;
  char last_byte_ = '\n';  // of the given ones
};

// Returns the checksum of all that a reader gives of the file at `path`.
absl::StatusOr<uint64_t> ChecksumOfFile(const std::string& path, SourceCut cut);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_SOURCE_READER_H_
