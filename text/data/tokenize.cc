#include "text/data/tokenize.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/check.h"
#include "base/enough_memory.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "base/thread_pool.h"
#include "text/data/json_line.h"
#include "text/data/record_format.h"
#include "text/data/text_cut.h"

namespace castor {
namespace {

// Pieces are taken together until there are so many for each thread, or so
// many bytes of them.
constexpr int kPiecesPerThread = 8;
constexpr int64_t kBatchBytes = int64_t{16} << 20;
// At most so many keys are named as ones that are not used.
constexpr size_t kMostUnused = 16;

// Notes a document, whose own tokens are the values from `begin` on.
void NoteDocument(const TextEncoding& encoding, size_t begin,
                  PieceTokens* out) {
  ++out->documents;
  if (!encoding.before.empty() && begin < out->values.size() &&
      out->values[begin] == encoding.before.back()) {
    ++out->twice;
  }
}

void NoteUnused(const std::vector<std::string>& keys, int64_t line,
                PieceTokens* out) {
  for (const std::string& key : keys) {
    if (out->unused.size() < kMostUnused) out->unused.emplace(key, line);
  }
}

// Notes the largest of the values from `begin` on.
void NoteLargest(size_t begin, int64_t line, bool is_label, PieceTokens* out) {
  for (size_t i = begin; i < out->values.size(); ++i) {
    if (out->values[i] <= out->largest) continue;
    out->largest = out->values[i];
    out->largest_line = line;
    out->largest_is_label = is_label;
  }
}

// The error of a `text` whose byte at `bad` begins no character.
absl::Status NotUtf8(absl::string_view text, int64_t bad) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the byte 0x",
      absl::Hex(static_cast<unsigned char>(text[static_cast<size_t>(bad)]),
                absl::kZeroPad2),
      " is no UTF-8, which a tokenizer needs: iconv converts the file"));
}

// Returns the `status` of the record `text`, with a better reason where it is
// refused and is no UTF-8: that says more than what a parser makes of it.
absl::Status OfRecord(absl::string_view text, const absl::Status& status) {
  if (status.ok()) return status;
  const int64_t bad = FindInvalidUtf8(text);
  return bad >= 0 ? NotUtf8(text, bad) : status;
}

std::string PlaceOf(const std::string& path, int64_t line) {
  return absl::StrCat("file \"", path, "\", ", PlaceWord(path), " ", line);
}

bool IsBlank(absl::string_view line) {
  return absl::StripAsciiWhitespace(line).empty();
}

// Calls fn(line's text, line's number) until it returns an error.
template <typename Fn>
absl::Status ForEachLine(const SourcePiece& piece, Fn fn) {
  const absl::string_view bytes = piece.bytes;
  int64_t number = piece.first_line;
  for (size_t begin = 0; begin < bytes.size(); ++number) {
    const size_t end = std::min(bytes.find('\n', begin), bytes.size());
    CASTOR_RETURN_IF_ERROR(fn(bytes.substr(begin, end - begin), number));
    begin = end + 1;
  }
  return absl::OkStatus();
}

// Makes tokens of the pieces of the file at `path`.
class PieceTokenizer {
 public:
  PieceTokenizer(const TokenizeOptions& options, const std::string& path)
      : options_(options), path_(path) {}

  absl::Status Tokenize(const SourcePiece& piece, PieceTokens* out) const;

 private:
  absl::Status TokenizeText(const SourcePiece& piece, PieceTokens* out) const;
  absl::Status AddDocument(const std::string& text, int64_t line,
                           PieceTokens* out) const;
  absl::Status AddTokens(const JsonLine& line, int64_t number,
                         PieceTokens* out) const;

  const TokenizeOptions& options_;
  const std::string& path_;
};

class Tokenizing {
 public:
  Tokenizing(const TokenizeOptions& options, SourceReader* reader,
             TokenCacheWriter* writer)
      : options_(options), reader_(*reader), writer_(*writer) {}

  absl::Status Run();

 private:
  absl::Status Write(const PieceTokens& piece);

  const TokenizeOptions& options_;
  SourceReader& reader_;
  TokenCacheWriter& writer_;
  int64_t twice_ = 0;  // documents that begin with a begin token of their own
  std::set<std::string> unused_told_;
};

absl::Status Tokenizing::Run() {
  ThreadPool pool(options_.threads);
  std::vector<SourcePiece> pieces(
      static_cast<size_t>(kPiecesPerThread * pool.num_threads()));
  for (bool more = true; more;) {
    size_t count = 0;
    for (int64_t bytes = 0; count < pieces.size() && bytes < kBatchBytes;) {
      CASTOR_ASSIGN_OR_RETURN(more, reader_.Next(&pieces[count]));
      if (!more) break;
      bytes += static_cast<int64_t>(pieces[count++].bytes.size());
    }
    std::vector<PieceTokens> results(count);
    pool.ParallelFor(static_cast<int64_t>(count), [&](int64_t i, int) {
      results[i].status = IfMemoryAllows(
          absl::StrCat("tokenising file \"", reader_.path(), "\""), [&] {
            return TokenizePiece(options_, reader_.path(), pieces[i],
                                 &results[i]);
          });
    });
    for (const PieceTokens& result : results) {
      CASTOR_RETURN_IF_ERROR(Write(result));
    }
    if (options_.progress) {
      options_.progress(reader_.bytes_taken(), reader_.stamp().size_bytes);
    }
  }
  if (options_.kind != SourceKind::kText && writer_.lines() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("file \"", reader_.path(), "\" has blank lines only"));
  }
  if (twice_ > 0 && options_.begins_twice) {
    options_.begins_twice(twice_, writer_.lines());
  }
  return reader_.CheckUnchanged();
}

absl::Status PieceTokenizer::Tokenize(const SourcePiece& piece,
                                      PieceTokens* out) const {
  if (options_.kind == SourceKind::kText) return TokenizeText(piece, out);
  const bool as_text = options_.kind == SourceKind::kTextLines;
  const bool is_example = options_.kind == SourceKind::kExamples;
  JsonLine line;
  return ForEachLine(
      piece, [&](absl::string_view text, int64_t number) -> absl::Status {
        if (IsBlank(text)) return absl::OkStatus();
        absl::Status status =
            options_.labelled.has_value()
                ? ReadLabelledRecord(text, *options_.labelled, &line)
            : is_example ? ReadExample(text, *options_.examples, &line)
                         : ReadJsonLine(text, options_.keys, &line,
                                        options_.tells_documents_apart);
        if (status.ok() && line.has_ids == as_text) {
          status = absl::InvalidArgumentError(
              as_text
                  ? "input_ids: is there, but the first line has text only: "
                    "all lines of a file have the one or the other"
                  : "input_ids: is missing, but the first line has it: all "
                    "lines of a file have them, or all have text");
        }
        if (status.ok()) {
          NoteUnused(line.unused, number, out);
          status = as_text ? AddDocument(line.text, number, out)
                           : AddTokens(line, number, out);
        }
        return Annotate(PlaceOf(path_, number), OfRecord(text, status));
      });
}

absl::Status PieceTokenizer::TokenizeText(const SourcePiece& piece,
                                          PieceTokens* out) const {
  absl::string_view text = piece.bytes;
  if (const int64_t bad = FindInvalidUtf8(text); bad >= 0) {
    const auto lines = std::count(text.begin(), text.begin() + bad, '\n');
    return Annotate(PlaceOf(path_, piece.first_line + lines),
                    NotUtf8(text, bad));
  }
  const TextEncoding& encoding = *options_.encoding;
  if (piece.is_first) out->values = encoding.before;
  const size_t begin = out->values.size();
  if (piece.is_between_words && !encoding.keeps_space) text.remove_prefix(1);
  const absl::Status encoded = encoding.encode(text, &out->values);
  if (!encoded.ok()) {
    return Annotate(absl::StrCat("file \"", path_, "\", from line ",
                                 piece.first_line, " on"),
                    encoded);
  }
  if (piece.is_first) NoteDocument(encoding, begin, out);
  if (piece.is_last) {
    out->values.insert(out->values.end(), encoding.after.begin(),
                       encoding.after.end());
  }
  NoteLargest(0, piece.first_line, false, out);
  return absl::OkStatus();
}

absl::Status PieceTokenizer::AddDocument(const std::string& text, int64_t line,
                                         PieceTokens* out) const {
  const TextEncoding& encoding = *options_.encoding;
  std::vector<int32_t>& ids = out->values;
  const size_t begin = ids.size();
  ids.insert(ids.end(), encoding.before.begin(), encoding.before.end());
  const size_t own = ids.size();
  CASTOR_RETURN_IF_ERROR(encoding.encode(text, &ids));
  NoteDocument(encoding, own, out);
  ids.insert(ids.end(), encoding.after.begin(), encoding.after.end());
  if (encoding.end_of_document >= 0 &&
      (ids.size() == begin || ids.back() != encoding.end_of_document)) {
    ids.push_back(encoding.end_of_document);
  }
  NoteLargest(begin, line, false, out);
  return absl::OkStatus();
}

absl::Status PieceTokenizer::AddTokens(const JsonLine& line, int64_t number,
                                       PieceTokens* out) const {
  std::vector<int32_t>& values = out->values;
  const auto add = [&](const std::vector<int32_t>& from, int64_t begin,
                       int64_t end, bool are_labels) {
    const size_t at = values.size();
    values.insert(values.end(), from.begin() + begin, from.begin() + end);
    NoteLargest(at, number, are_labels, out);
  };
  std::vector<int64_t> starts = line.starts;
  if (starts.empty()) starts = {0};
  starts.push_back(static_cast<int64_t>(line.ids.size()));
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    out->lines.push_back(
        {.tokens = starts[i + 1] - starts[i], .has_labels = line.has_labels});
    add(line.ids, starts[i], starts[i + 1], /*are_labels=*/false);
    if (!line.has_labels) continue;
    add(line.labels, starts[i], starts[i + 1], /*are_labels=*/true);
  }
  return absl::OkStatus();
}

absl::Status Tokenizing::Write(const PieceTokens& piece) {
  CASTOR_RETURN_IF_ERROR(piece.status);
  CASTOR_RETURN_IF_ERROR(CheckVocabulary(options_, reader_.path(),
                                         piece.largest, piece.largest_line,
                                         piece.largest_is_label));
  writer_.NoteToken(piece.largest, piece.largest_line, piece.largest_is_label);
  for (const auto& [key, line] : piece.unused) {
    if (options_.unused_key == nullptr || unused_told_.size() == kMostUnused) {
      break;
    }
    if (unused_told_.insert(key).second) options_.unused_key(key, line);
  }
  const absl::Span<const int32_t> values = piece.values;
  if (!HasSamples(options_.kind)) {
    // The width of the cache's tokens follows from this bound.
    CASTOR_CHECK(piece.largest < options_.encoding->vocabulary);
    writer_.AddDocuments(piece.documents);
    twice_ += piece.twice;
    return writer_.AddTokens(values);
  }
  size_t at = 0;
  for (const PieceTokens::Line& line : piece.lines) {
    const auto count = static_cast<size_t>(line.tokens);
    const auto labels = line.has_labels ? count : 0;
    CASTOR_RETURN_IF_ERROR(writer_.AddLine(values.subspan(at, count),
                                           values.subspan(at + count, labels)));
    at += count + labels;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FoundRecords> FindRecords(
    const std::string& path, const RecordKeys& keys,
    std::optional<RecordFormat> given, bool tells_documents_apart,
    const std::vector<absl::string_view>& labelled_keys) {
  CASTOR_ASSIGN_OR_RETURN(const auto reader,
                          SourceReader::Open(path, SourceCut::kLines));
  CASTOR_RETURN_IF_ERROR(reader->CheckContent().status());
  const auto look =
      [&](absl::string_view text) -> absl::StatusOr<FoundRecords> {
    FoundRecords found;
    std::vector<std::string> names;
    const absl::StatusOr<RecordFormat> format =
        FormatOfRecord(text, keys, &names);
    if (!given.has_value()) CASTOR_RETURN_IF_ERROR(format.status());
    found.format = given.has_value() ? *given : *format;
    if (!labelled_keys.empty()) {
      if (found.format != RecordFormat::kTokens) {
        found.format = RecordFormat::kText;
      }
      found.unused = OtherNames(std::move(names), labelled_keys, keys);
      return found;
    }
    if (found.format == RecordFormat::kText ||
        found.format == RecordFormat::kTokens) {
      JsonLine line;
      CASTOR_RETURN_IF_ERROR(
          ReadJsonLine(text, keys, &line, tells_documents_apart));
      found.unused = std::move(line.unused);
      return found;
    }
    found.unused = OtherNames(std::move(names), KeysOf(found.format), keys);
    return found;
  };
  SourcePiece piece;
  for (;;) {
    CASTOR_ASSIGN_OR_RETURN(const bool more, reader->Next(&piece));
    if (!more) {
      return absl::InvalidArgumentError(
          absl::StrCat("file \"", path, "\" has blank lines only"));
    }
    // The error that ends the loop over the piece does not count where a line
    // was found.
    std::optional<FoundRecords> found;
    CASTOR_RETURN_IF_ERROR(ForEachLine(
        piece, [&](absl::string_view text, int64_t number) -> absl::Status {
          if (found.has_value() || IsBlank(text)) return absl::OkStatus();
          absl::StatusOr<FoundRecords> looked = look(text);
          if (looked.ok()) found = *std::move(looked);
          return Annotate(PlaceOf(path, number),
                          OfRecord(text, looked.status()));
        }));
    if (found.has_value()) return *std::move(found);
  }
}

absl::Status Tokenize(const TokenizeOptions& options, SourceReader* reader,
                      TokenCacheWriter* writer) {
  const bool is_labelled = options.kind == SourceKind::kLabelled;
  CASTOR_CHECK(
      options.threads >= 1 && options.labelled.has_value() == is_labelled &&
      (is_labelled || (options.encoding != nullptr) ==
                          (options.kind != SourceKind::kTokenLines)) &&
      (options.examples != nullptr) == (options.kind == SourceKind::kExamples));
  return Tokenizing(options, reader, writer).Run();
}

absl::Status TokenizePiece(const TokenizeOptions& options,
                           const std::string& path, const SourcePiece& piece,
                           PieceTokens* out) {
  return PieceTokenizer(options, path).Tokenize(piece, out);
}

std::string UnusedKey(const std::string& path, int64_t line,
                      const std::string& key) {
  return absl::StrCat(PlaceWord(path), " ", line,
                      " has a key that is not used: ", QuotedForMessage(key));
}

std::string BeginsTwice(const TextEncoding& encoding, int64_t twice,
                        int64_t documents) {
  return absl::StrCat(
      twice, " of ", documents, documents == 1 ? " document" : " documents",
      twice == 1 ? " begins" : " begin", " with ",
      QuotedForMessage(encoding.begin_token),
      ", which the tokenizer puts before each as well, so that it is there "
      "twice: take it out of the text");
}

absl::Status CheckVocabulary(const TokenizeOptions& options,
                             const std::string& path, int64_t largest_token,
                             int64_t line, bool is_label) {
  // The reader of labelled records has checked their tokens.
  if (options.kind == SourceKind::kLabelled) return absl::OkStatus();
  if (largest_token < options.vocabulary) return absl::OkStatus();
  if (options.kind == SourceKind::kTokenLines) {
    return absl::InvalidArgumentError(absl::StrCat(
        PlaceOf(path, line), ": ", is_label ? "labels" : "input_ids",
        ": has token ", largest_token, ", but model.vocab_size is ",
        options.vocabulary));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      options.encoding->name, " gives token ", largest_token, " in file \"",
      path, "\" (", options.kind == SourceKind::kText ? "from " : "",
      PlaceWord(path), " ", line,
      options.kind == SourceKind::kText ? " on" : "",
      "), but model.vocab_size is ", options.vocabulary,
      ": tokenizer and model are not of one vocabulary"));
}

}  // namespace castor
