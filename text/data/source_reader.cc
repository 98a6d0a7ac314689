#include "text/data/source_reader.h"

#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/foreign_content.h"
#include "base/regular_file.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "run/config/data_config.h"
#include "text/data/parquet_rows.h"
#include "text/data/record_lines.h"
#include "text/data/text_cut.h"

namespace castor {
namespace {

constexpr int64_t kReadBytes = int64_t{1} << 20;
// Lines are given together until they are so long.
constexpr int64_t kMinPieceBytes = int64_t{1} << 17;

SourceStamp StampOf(const struct stat& info) {
  return {.size_bytes = info.st_size,
          .modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 +
                         info.st_mtim.tv_nsec};
}

std::string Named(const std::string& path) {
  return absl::StrCat("file \"", path, "\" ");
}

absl::Status NamedStatus(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(Named(path), status.message()));
}

// The bytes that are cut: those of the file, unpacked, or the lines that are
// made of them.
std::unique_ptr<SourceBytes> OpenBytes(const std::string& path, int fd,
                                       int64_t size_bytes, SourceCut cut,
                                       int64_t* taken) {
  const SourceContent content = ContentByName(path);
  if (cut == SourceCut::kLines && content == SourceContent::kRows) {
    return RowsOfParquet(fd, size_bytes, taken);
  }
  auto bytes = BytesOfFile(fd, size_bytes, UnpackName(path).compression, taken);
  if (cut == SourceCut::kText) return bytes;
  switch (content) {
    case SourceContent::kList:
      return LinesOfList(std::move(bytes));
    case SourceContent::kTable:
      return LinesOfTable(std::move(bytes));
    default:
      return bytes;
  }
}

}  // namespace

SourceContent ContentByName(absl::string_view path) {
  const UnpackedName unpacked = UnpackName(path);
  if (HasTokensByName(path)) return SourceContent::kTokens;
  if (absl::EndsWith(path, ".parquet")) return SourceContent::kRows;
  static constexpr std::pair<absl::string_view, SourceContent> kEnds[] = {
      {".txt", SourceContent::kText},
      {".jsonl", SourceContent::kLines},
      {".json", SourceContent::kList},
      {".csv", SourceContent::kTable}};
  for (const auto& [end, content] : kEnds) {
    if (absl::EndsWith(unpacked.name, end)) return content;
  }
  return SourceContent::kUnknown;
}

absl::string_view PlaceWord(absl::string_view path) {
  switch (ContentByName(path)) {
    case SourceContent::kList:
    case SourceContent::kTable:
      return "record";
    case SourceContent::kRows:
      return "row";
    default:
      return "line";
  }
}

struct SourceReader::Hash {
  XXH3_state_t* const state = XXH3_createState();
  ~Hash() { XXH3_freeState(state); }
};

absl::StatusOr<std::unique_ptr<SourceReader>> SourceReader::Open(
    const std::string& path, SourceCut cut, int64_t max_line_bytes) {
  absl::StatusOr<RegularFile> file = OpenRegularFile(path);
  if (!file.ok()) {
    return NamedStatus(path, file.status());
  }
  if (file->info.st_size == 0) {
    close(file->fd);
    return absl::InvalidArgumentError(absl::StrCat(Named(path), "is empty"));
  }
  return std::unique_ptr<SourceReader>(new SourceReader(
      path, file->fd, StampOf(file->info), cut, max_line_bytes));
}

SourceReader::SourceReader(std::string path, int fd, const SourceStamp& stamp,
                           SourceCut cut, int64_t max_line_bytes)
    : path_(std::move(path)),
      fd_(fd),
      stamp_(stamp),
      cut_(cut),
      max_line_bytes_(max_line_bytes),
      hash_(std::make_unique<Hash>()),
      bytes_(OpenBytes(path_, fd_, stamp_.size_bytes, cut, &taken_)) {
  CASTOR_CHECK(hash_->state != nullptr);
  XXH3_64bits_reset(hash_->state);
}

SourceReader::~SourceReader() { close(fd_); }

// Reads until `wanted` bytes that were not given are in the buffer, or the file
// ends.
absl::Status SourceReader::Fill(int64_t wanted) {
  if (begin_ > 0 && static_cast<int64_t>(buffer_.size()) - begin_ < wanted) {
    buffer_.erase(0, static_cast<size_t>(begin_));
    begin_ = 0;
  }
  while (static_cast<int64_t>(buffer_.size()) - begin_ < wanted && !ended_) {
    const auto had = buffer_.size();
    buffer_.resize(had + static_cast<size_t>(kReadBytes));
    const absl::StatusOr<int64_t> n =
        bytes_->Read(buffer_.data() + had, kReadBytes);
    buffer_.resize(had + static_cast<size_t>(n.ok() ? *n : 0));
    if (!n.ok()) return NamedStatus(path_, n.status());
    ended_ = *n == 0;
  }
  return absl::OkStatus();
}

// Returns where, in the buffer, the piece ends that begins at begin_.
absl::StatusOr<int64_t> SourceReader::EndOfPiece() {
  if (cut_ == SourceCut::kText) {
    CASTOR_RETURN_IF_ERROR(Fill(kMaxPartBytes + 1));
    return begin_ + CutText(absl::string_view(buffer_).substr(
                        static_cast<size_t>(begin_)));
  }
  for (int64_t wanted = kMinPieceBytes;;) {
    CASTOR_RETURN_IF_ERROR(Fill(wanted + 1));
    const absl::string_view rest =
        absl::string_view(buffer_).substr(static_cast<size_t>(begin_));
    const auto last = rest.rfind('\n', static_cast<size_t>(wanted - 1));
    if (last != absl::string_view::npos) {
      return begin_ + static_cast<int64_t>(last) + 1;
    }
    const auto size = static_cast<int64_t>(rest.size());
    const bool is_rest = size <= wanted && ended_;
    if (is_rest && size <= max_line_bytes_) return begin_ + size;
    if (wanted > max_line_bytes_) break;
    wanted = std::min(2 * wanted, max_line_bytes_ + 1);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("file \"", path_, "\", ", PlaceWord(path_), " ", line_,
                   " is longer than ", FormatBytes(max_line_bytes_),
                   ": divide it into several"));
}

absl::StatusOr<bool> SourceReader::Next(SourcePiece* piece) {
  CASTOR_ASSIGN_OR_RETURN(const int64_t end, EndOfPiece());
  const auto size = static_cast<size_t>(end - begin_);
  if (size == 0) return false;
  piece->bytes.assign(buffer_, static_cast<size_t>(begin_), size);
  XXH3_64bits_update(hash_->state, piece->bytes.data(), size);
  piece->first_line = line_;
  piece->is_first = given_ == 0;
  piece->is_between_words = piece->bytes[0] == ' ' && size > 1 &&
                            !absl::ascii_isspace(piece->bytes[1]) &&
                            !absl::ascii_isspace(last_byte_);
  last_byte_ = piece->bytes.back();
  begin_ = end;
  given_ += static_cast<int64_t>(size);
  piece->is_last = ended_ && begin_ == static_cast<int64_t>(buffer_.size());
  line_ += std::count(piece->bytes.begin(), piece->bytes.end(), '\n');
  return true;
}

absl::Status SourceReader::GoTo(const SourcePlace& place) {
  CASTOR_CHECK(given_ == 0 && buffer_.empty() && place.offset >= 0);
  if (place.offset > 0) {
    CASTOR_RETURN_IF_ERROR(NamedStatus(path_, bytes_->Skip(place.offset - 1)));
    const absl::StatusOr<int64_t> n = bytes_->Read(&last_byte_, 1);
    if (!n.ok()) return NamedStatus(path_, n.status());
    if (*n == 0 || (cut_ == SourceCut::kLines && last_byte_ != '\n')) {
      return absl::InvalidArgumentError(
          absl::StrCat(Named(path_), "has no ", PlaceWord(path_), " ",
                       place.line, " any more where it had one"));
    }
  }
  given_ = place.offset;
  line_ = place.line;
  return absl::OkStatus();
}

double SourceReader::bytes_per_file_byte() const {
  const auto read = given_ + static_cast<int64_t>(buffer_.size()) - begin_;
  return taken_ > 0 ? static_cast<double>(read) / static_cast<double>(taken_)
                    : 1;
}

absl::StatusOr<absl::string_view> SourceReader::CheckContent() const {
  std::string head(kForeignContentBytes, '\0');
  const auto bytes = BytesOfFile(fd_, stamp_.size_bytes,
                                 UnpackName(path_).compression, nullptr);
  size_t had = 0;
  while (had < head.size()) {
    const absl::StatusOr<int64_t> n =
        bytes->Read(head.data() + had, static_cast<int64_t>(head.size() - had));
    if (!n.ok()) return NamedStatus(path_, n.status());
    if (*n == 0) break;
    had += static_cast<size_t>(*n);
  }
  head.resize(had);
  const bool has_rows = ContentByName(path_) == SourceContent::kRows;
  if (has_rows && IsParquet(head)) return "";
  const absl::string_view page = WebPage(head);
  absl::string_view is = ForeignContent(head);
  if (is.empty()) is = WideText(head);
  if (is.empty() && cut_ == SourceCut::kLines) is = page;
  if (is.empty() && has_rows) is = "is no Parquet file, as which it is named";
  if (is.empty()) return page;
  return absl::InvalidArgumentError(absl::StrCat(Named(path_), is));
}

absl::Status SourceReader::CheckUnchanged() const {
  struct stat info;
  if (fstat(fd_, &info) == 0 && StampOf(info) == stamp_) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(Named(path_), "was written to while it was read"));
}

uint64_t SourceReader::checksum() const {
  return XXH3_64bits_digest(hash_->state);
}

absl::StatusOr<uint64_t> ChecksumOfFile(const std::string& path,
                                        SourceCut cut) {
  CASTOR_ASSIGN_OR_RETURN(const auto reader, SourceReader::Open(path, cut));
  SourcePiece piece;
  for (bool more = true; more;) {
    CASTOR_ASSIGN_OR_RETURN(more, reader->Next(&piece));
  }
  return reader->checksum();
}

}  // namespace castor
