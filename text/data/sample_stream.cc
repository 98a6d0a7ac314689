#include "text/data/sample_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/enough_memory.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "runtime/data/permutation.h"

namespace castor {
namespace {

constexpr char kFiles[] = "data/files";

// Pieces are worked on together up to so many bytes.
constexpr int64_t kBatchBytes = int64_t{4} << 20;
// How many tokens a piece of a file of tokens has.
constexpr int64_t kTokensPerPart = int64_t{1} << 16;
// How much of a file tells how many samples it has.
constexpr int64_t kEstimateBytes = int64_t{1} << 20;
// At most so many keys are named as ones that are not used.
constexpr size_t kMostUnused = 16;

}  // namespace

SampleStream::SampleStream(std::vector<StreamedFile> files,
                           const StreamOptions& options,
                           std::function<void(std::string line)> say)
    : files_(std::move(files)),
      options_(options),
      say_(std::move(say)),
      has_samples_(files_.front().has_samples()) {
  for (const StreamedFile& file : files_) {
    CASTOR_CHECK(file.has_samples() == has_samples_);
    num_bytes_ += file.stamp.size_bytes;
  }
}

const StreamedFile& SampleStream::FileAt(int64_t place_in_pass) const {
  const auto n = static_cast<int64_t>(files_.size());
  if (!options_.shuffle || n == 1) {
    return files_[static_cast<size_t>(place_in_pass)];
  }
  const RandomKey key{options_.seed,
                      MixKey(HashName(kFiles, sizeof(kFiles) - 1),
                             static_cast<uint64_t>(next_.pass))};
  return files_[static_cast<size_t>(PermutedIndex(key, n, place_in_pass))];
}

absl::Status SampleStream::GoTo(const StreamPlace& place) {
  if (place.pass < 0 || place.file < 0 || place.offset < 0 || place.line < 1 ||
      place.skip < 0 || place.file >= static_cast<int64_t>(files_.size())) {
    return absl::InvalidArgumentError("names a place that cannot be");
  }
  next_ = place;
  next_.skip = 0;
  skip_ = place.skip;
  is_whole_pass_ = place.file == 0 && place.offset == 0 && place.skip == 0;
  const StreamedFile& file = FileAt(next_.file);
  if (file.tokens != nullptr) {
    if (place.offset <= file.tokens->size()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("file \"", file.path, "\" ends before token ",
                     place.offset, ", from which on it would be read"));
  }
  return OpenFile();
}

absl::Status SampleStream::OpenFile() {
  const StreamedFile& file = FileAt(next_.file);
  CASTOR_ASSIGN_OR_RETURN(
      reader_, SourceReader::Open(file.path, CutOf(file.tokenize.kind)));
  if (!(reader_->stamp() == file.stamp)) {
    return absl::DataLossError(absl::StrCat(
        "file \"", file.path, "\" was written to while the run read it"));
  }
  if (next_.offset == 0) return absl::OkStatus();
  return reader_->GoTo({.offset = next_.offset, .line = next_.line});
}

absl::Status SampleStream::Check(const StreamedFile& file, const Part& part) {
  const PieceTokens& tokens = part.tokens;
  CASTOR_RETURN_IF_ERROR(tokens.status);
  TokenizeOptions options = file.tokenize;
  options.vocabulary = options_.vocabulary;
  CASTOR_RETURN_IF_ERROR(CheckVocabulary(options, file.path, tokens.largest,
                                         tokens.largest_line,
                                         tokens.largest_is_label));
  for (const auto& [key, line] : tokens.unused) {
    if (unused_told_.size() == kMostUnused) break;
    const bool known = std::find(file.unused.begin(), file.unused.end(), key) !=
                       file.unused.end();
    if (known || !unused_told_.insert(key).second) continue;
    say_(UnusedKey(file.path, line, key));
  }
  twice_ += tokens.twice;
  documents_ += tokens.documents;
  return absl::OkStatus();
}

absl::StatusOr<bool> SampleStream::ReadTokens() {
  const StreamedFile& file = FileAt(next_.file);
  const int64_t count =
      std::min(kTokensPerPart, file.tokens->size() - next_.offset);
  Part part = {.place = next_};
  part.tokens.values.resize(static_cast<size_t>(count));
  CASTOR_RETURN_IF_ERROR(file.tokens->Read(
      next_.offset, count, options_.vocabulary, part.tokens.values.data()));
  next_.offset += count;
  part.ends_file = next_.offset == file.tokens->size();
  parts_.push_back(std::move(part));
  return true;
}

absl::StatusOr<bool> SampleStream::ReadParts(ThreadPool& pool) {
  CASTOR_RETURN_IF_ERROR(failed_);
  for (;; ++next_.file, next_.offset = 0, next_.line = 1) {
    if (next_.file == static_cast<int64_t>(files_.size())) return false;
    const StreamedFile& file = FileAt(next_.file);
    if (file.tokens != nullptr) {
      if (next_.offset == file.tokens->size()) continue;
      return ReadTokens();
    }
    if (reader_ == nullptr) CASTOR_RETURN_IF_ERROR(OpenFile());
    std::vector<SourcePiece> pieces;
    std::vector<Part> parts;
    int64_t bytes = 0;
    bool more = true;
    while (static_cast<int>(pieces.size()) < options_.pieces &&
           bytes < kBatchBytes) {
      const SourcePlace place = reader_->place();
      SourcePiece piece;
      const absl::StatusOr<bool> next = reader_->Next(&piece);
      // The pieces before an error are given first, whatever the number of
      // threads.
      failed_ = next.status();
      more = next.ok() && *next;
      if (!more) break;
      parts.push_back({.place = next_});
      parts.back().place.offset = place.offset;
      parts.back().place.line = place.line;
      parts.back().ends_file = piece.is_last;
      bytes += static_cast<int64_t>(piece.bytes.size());
      pieces.push_back(std::move(piece));
    }
    CASTOR_RETURN_IF_ERROR(reader_->CheckUnchanged());
    pool.ParallelFor(static_cast<int64_t>(pieces.size()), [&](int64_t i, int) {
      PieceTokens& tokens = parts[static_cast<size_t>(i)].tokens;
      tokens.status = IfMemoryAllows(
          absl::StrCat("tokenising file \"", file.path, "\""), [&] {
            return TokenizePiece(file.tokenize, file.path,
                                 pieces[static_cast<size_t>(i)], &tokens);
          });
    });
    for (Part& part : parts) {
      const absl::Status checked = Check(file, part);
      if (!checked.ok()) {
        failed_ = checked;
        break;
      }
      parts_.push_back(std::move(part));
    }
    if (!parts_.empty()) {
      const SourcePlace place = reader_->place();
      next_.offset = place.offset;
      next_.line = place.line;
      return true;
    }
    CASTOR_RETURN_IF_ERROR(failed_);
    CASTOR_CHECK(!more);
    reader_ = nullptr;
  }
}

// Adds a piece's tokens to the run.
void SampleStream::TakeRun(Part part) {
  std::vector<int32_t>& values = part.tokens.values;
  const StreamedFile& file = FileAt(part.place.file);
  if (part.ends_file && file.separator >= 0 &&
      part.place.file + 1 < static_cast<int64_t>(files_.size())) {
    values.push_back(file.separator);
  }
  // Tokens that were given are erased, once they are most of the run.
  if (run_begin_ > static_cast<int64_t>(run_.size()) / 2) {
    run_.erase(run_.begin(), run_.begin() + run_begin_);
    for (Mark& mark : marks_) mark.begin -= run_begin_;
    run_begin_ = 0;
  }
  while (marks_.size() > 1 && marks_[1].begin <= run_begin_) {
    marks_.pop_front();
  }
  marks_.push_back({static_cast<int64_t>(run_.size()), part.place});
  run_.insert(run_.end(), values.begin(), values.end());
  seen_tokens_ += static_cast<int64_t>(values.size());
  const int64_t skipped =
      std::min(skip_, static_cast<int64_t>(run_.size()) - run_begin_);
  run_begin_ += skipped;
  skip_ -= skipped;
}

absl::StatusOr<bool> SampleStream::NextOfRun(ThreadPool& pool,
                                             SampleWindow* window) {
  const int64_t wanted = options_.length + 1;
  while (static_cast<int64_t>(run_.size()) - run_begin_ < wanted) {
    if (parts_.empty()) {
      CASTOR_ASSIGN_OR_RETURN(const bool more, ReadParts(pool));
      if (!more) return false;
    }
    TakeRun(std::move(parts_.front()));
    parts_.pop_front();
  }
  window->AddRun(absl::MakeConstSpan(run_).subspan(
      static_cast<size_t>(run_begin_), static_cast<size_t>(wanted)));
  run_begin_ += options_.length;
  return true;
}

absl::StatusOr<bool> SampleStream::NextRecord(ThreadPool& pool,
                                              SampleWindow* window) {
  for (;;) {
    if (parts_.empty()) {
      CASTOR_ASSIGN_OR_RETURN(const bool more, ReadParts(pool));
      if (!more) return false;
    }
    const PieceTokens& tokens = parts_.front().tokens;
    if (line_ == static_cast<int64_t>(tokens.lines.size())) {
      parts_.pop_front();
      line_ = value_ = 0;
      continue;
    }
    const PieceTokens::Line& line = tokens.lines[static_cast<size_t>(line_++)];
    const auto count = static_cast<size_t>(line.tokens);
    const auto labels = line.has_labels ? count : 0;
    const absl::Span<const int32_t> values =
        absl::MakeConstSpan(tokens.values).subspan(static_cast<size_t>(value_));
    value_ += static_cast<int64_t>(count + labels);
    if (skip_ > 0) {
      --skip_;
      continue;
    }
    window->AddRecord(values.first(count), values.subspan(count, labels));
    return true;
  }
}

absl::StatusOr<bool> SampleStream::Next(ThreadPool& pool,
                                        SampleWindow* window) {
  CASTOR_ASSIGN_OR_RETURN(const bool more, has_samples_
                                               ? NextRecord(pool, window)
                                               : NextOfRun(pool, window));
  if (more) {
    ++given_;
    return true;
  }
  if (is_whole_pass_ && given_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "file \"", files_[0].path, "\"",
        files_.size() > 1 ? absl::StrCat(" and ", files_.size() - 1, " more")
                          : "",
        files_.size() > 1 ? " are too short: they have "
                          : " is too short: it has ",
        seen_tokens_, " tokens, and one sample takes ", options_.length,
        " + 1 (data.sequence_length and the last target)"));
  }
  EndPass();
  return false;
}

void SampleStream::EndPass() {
  if (is_whole_pass_ && next_.pass == 0 && twice_ > 0) {
    const TextEncoding& encoding = *files_[0].tokenize.encoding;
    say_(BeginsTwice(encoding, twice_, documents_));
  }
  next_ = {.pass = next_.pass + 1};
  reader_ = nullptr;
  run_.clear();
  marks_.clear();
  run_begin_ = given_ = seen_tokens_ = twice_ = documents_ = skip_ = 0;
  is_whole_pass_ = true;
}

StreamPlace SampleStream::place() const {
  StreamPlace place = next_;
  if (has_samples_) {
    if (!parts_.empty()) {
      place = parts_.front().place;
      place.skip = line_ + skip_;
    } else {
      place.skip = skip_;
    }
    return place;
  }
  // The last mark that is not after the sample's first token.
  const Mark* of = nullptr;
  for (const Mark& mark : marks_) {
    if (mark.begin <= run_begin_) of = &mark;
  }
  if (of == nullptr) {
    place.skip = skip_;
    return place;
  }
  place = of->place;
  place.skip = run_begin_ - of->begin + skip_;
  return place;
}

absl::StatusOr<double> SampleStream::EstimateSamples() const {
  double samples = 0, of_bytes = 0;
  const StreamedFile* first = nullptr;
  for (const StreamedFile& file : files_) {
    if (file.tokens != nullptr) {
      samples += static_cast<double>(file.tokens->size()) /
                 static_cast<double>(options_.length);
    } else {
      of_bytes += static_cast<double>(file.stamp.size_bytes);
      if (first == nullptr) first = &file;
    }
  }
  if (first == nullptr) return samples;
  CASTOR_ASSIGN_OR_RETURN(
      const auto reader,
      SourceReader::Open(first->path, CutOf(first->tokenize.kind)));
  double found = 0, bytes = 0;
  SourcePiece piece;
  while (bytes < kEstimateBytes) {
    CASTOR_ASSIGN_OR_RETURN(const bool more, reader->Next(&piece));
    if (!more) break;
    bytes += static_cast<double>(piece.bytes.size());
    PieceTokens tokens;
    CASTOR_RETURN_IF_ERROR(
        TokenizePiece(first->tokenize, first->path, piece, &tokens));
    found += has_samples_ ? static_cast<double>(tokens.lines.size())
                          : static_cast<double>(tokens.values.size()) /
                                static_cast<double>(options_.length);
  }
  return samples + of_bytes * found / bytes * reader->bytes_per_file_byte();
}

}  // namespace castor
