// Finds a data file's tokens on all threads, in the file's order, with memory
// that does not grow with the file.
#ifndef CASTOR_TEXT_DATA_TOKENIZE_H_
#define CASTOR_TEXT_DATA_TOKENIZE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/data/example.h"
#include "text/data/labelled_record.h"
#include "text/data/record_keys.h"
#include "text/data/source_reader.h"
#include "text/data/text_encoding.h"
#include "text/data/token_cache_format.h"
#include "text/data/token_cache_writer.h"

namespace castor {

enum class SourceKind : uint8_t {
  kText,        // one document
  kTextLines,   // JSON lines with "text": a document each
  kTokenLines,  // JSON lines with "input_ids": a sample each
  kExamples,    // other records: a sample each, as example.h makes it
  kLabelled,    // records for a model of whole sequences (labelled_record.h)
};

struct FoundRecords {
  RecordFormat format = RecordFormat::kText;
  std::vector<std::string> unused = {};  // JsonLine::unused of the first one
};

// Finds the kind of the records in the file at `path`: `given`, or that of the
// first line that is not blank. With `labelled_keys` (labelled_record.h) they
// are texts or tokens, and other keys than these are not used. InvalidArgument:
// that line is bad, or there is none; also as SourceReader.
absl::StatusOr<FoundRecords> FindRecords(
    const std::string& path, const RecordKeys& keys,
    std::optional<RecordFormat> given, bool tells_documents_apart = false,
    const std::vector<absl::string_view>& labelled_keys = {});

// Returns true if each record is a sample with labels, not part of a run of
// tokens.
constexpr bool HasSamples(SourceKind kind) {
  return kind == SourceKind::kTokenLines || kind == SourceKind::kExamples ||
         kind == SourceKind::kLabelled;
}

constexpr TokenCacheKind CacheKindOf(SourceKind kind) {
  return HasSamples(kind) ? TokenCacheKind::kLines : TokenCacheKind::kTokens;
}

struct TokenizeOptions {
  SourceKind kind = SourceKind::kText;
  // Null with kTokenLines, and with kLabelled whose records have input_ids.
  const TextEncoding* encoding = nullptr;
  RecordKeys keys = {};                        // of kTextLines and kTokenLines
  const ExampleRules* examples = nullptr;      // of kExamples, null with others
  std::optional<LabelledRules> labelled = {};  // of kLabelled alone
  // Of kTokenLines: each document of a line (ReadJsonLine) becomes a line.
  bool tells_documents_apart = false;
  int64_t vocabulary = 0;  // the model's
  int threads = 1;
  // Called now and then with the progress in the source.
  std::function<void(int64_t done_bytes, int64_t all_bytes)> progress;
  // Called at the end with how many of the documents begin with the token that
  // the tokenizer puts before each of them, if any does; may be null.
  std::function<void(int64_t twice, int64_t documents)> begins_twice = {};
  // Called with a key that is not used, once for each (and for the first few of
  // them), with the first line that has it.
  std::function<void(const std::string& key, int64_t line)> unused_key = {};
};

// The tokens of a piece of a file.
struct PieceTokens {
  absl::Status status;
  std::vector<int32_t> values;  // tokens, or each line's tokens and labels
  struct Line {
    int64_t tokens = 0;
    bool has_labels = false;
  };
  std::vector<Line> lines;
  int64_t documents = 0;
  int64_t twice = 0;  // documents that begin with encoding.before's last token
  int32_t largest = -1;
  int64_t largest_line = 0;
  bool largest_is_label = false;
  std::map<std::string, int64_t> unused;  // keys, and where they are first
};

// Makes tokens of a piece of the file at `path`, which was cut by CutOf(kind).
// They depend on the piece alone. InvalidArgument: as Tokenize, except that
// tokens outside the vocabulary are left to CheckVocabulary. Does not set
// out->status.
absl::Status TokenizePiece(const TokenizeOptions& options,
                           const std::string& path, const SourcePiece& piece,
                           PieceTokens* out);

// Return messages for the user on a key that is not used, and on documents that
// begin twice (TokenizeOptions::begins_twice).
std::string UnusedKey(const std::string& path, int64_t line,
                      const std::string& key);
std::string BeginsTwice(const TextEncoding& encoding, int64_t twice,
                        int64_t documents);

// Appends the tokens of all that `reader`, opened with CutOf(kind), has to
// `writer`. They do not depend on the number of threads.
//
// InvalidArgument, with file, line and key: a line that is not as json_line.h
// says or not of the file's kind, a byte that is no UTF-8, a token outside the
// vocabulary; no line at all. Others: the reader's, the writer's, the
// encoding's.
absl::Status Tokenize(const TokenizeOptions& options, SourceReader* reader,
                      TokenCacheWriter* writer);

constexpr SourceCut CutOf(SourceKind kind) {
  return kind == SourceKind::kText ? SourceCut::kText : SourceCut::kLines;
}

// Checks a source's largest token. InvalidArgument, with file, line and key: it
// is not in the vocabulary. `path` is the source's.
absl::Status CheckVocabulary(const TokenizeOptions& options,
                             const std::string& path, int64_t largest_token,
                             int64_t line, bool is_label);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_TOKENIZE_H_
