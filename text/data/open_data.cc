#include "text/data/open_data.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "runtime/data/token_data.h"
#include "runtime/data/token_file.h"
#include "text/data/cached_tokens.h"
#include "text/data/line_data.h"
#include "text/data/token_cache.h"
#include "text/data/tokenize.h"

namespace castor {
namespace {

class DataOpener {
 public:
  DataOpener(const DataConfig& data, const OpenDataOptions& options)
      : data_(data), options_(options) {}

  absl::StatusOr<DataFile> Open(absl::string_view key, const std::string& path);

 private:
  // Sets encoding_, unless another file of text has.
  absl::Status LoadEncoding(const std::string& path);
  absl::StatusOr<TextEncoding> FindEncoding(const std::string& path) const;
  bool MayBeBytes(const std::string& path) const;
  void TellOfDocuments(absl::string_view key) const;
  absl::StatusOr<DataFile> OpenCached(absl::string_view key,
                                      const std::string& path,
                                      const LinesKind& lines);
  void Say(absl::string_view key, absl::string_view line) const {
    options_.say(absl::StrCat(key, ": ", line));
  }

  const DataConfig& data_;
  const OpenDataOptions& options_;
  std::optional<TextEncoding> encoding_;
};

absl::StatusOr<DataFile> DataOpener::Open(absl::string_view key,
                                          const std::string& path) {
  const bool text = absl::EndsWith(path, ".txt");
  if (text) {
    CASTOR_ASSIGN_OR_RETURN(const auto reader,
                            SourceReader::Open(path, SourceCut::kText));
    CASTOR_ASSIGN_OR_RETURN(const absl::string_view is, reader->CheckContent());
    if (!is.empty()) Say(key, absl::StrCat("file \"", path, "\" ", is));
    CASTOR_RETURN_IF_ERROR(LoadEncoding(path));
  }
  if (HasTokensByName(path) || (text && encoding_->is_bytes)) {
    CASTOR_ASSIGN_OR_RETURN(
        std::shared_ptr<const TokenFile> file,
        TokenFile::Open(
            path, {.token_type = data_.token_type,
                   .vocabulary = options_.vocabulary,
                   .say = [&](absl::string_view line) { Say(key, line); }}));
    return TokenDataFile(std::move(file));
  }
  if (text) return OpenCached(key, path, {.kind = SourceKind::kText});
  if (!absl::EndsWith(path, ".jsonl")) {
    return absl::InvalidArgumentError(
        absl::StrCat("file \"", path,
                     "\" ends neither in .txt (text) nor in .jsonl (lines with "
                     "\"text\" or \"input_ids\") nor in "
                     ".bin or .npy (integers of data.token_type)"));
  }
  CASTOR_ASSIGN_OR_RETURN(const LinesKind lines, KindOfLines(path));
  return OpenCached(key, path, lines);
}

bool DataOpener::MayBeBytes(const std::string& path) const {
  const int64_t bytes = ByteEncoding().vocabulary;
  return options_.vocabulary == bytes ||
         (options_.vocabulary < bytes && options_.model_directory.empty() &&
          absl::EndsWith(path, ".txt"));
}

absl::StatusOr<TextEncoding> DataOpener::FindEncoding(
    const std::string& path) const {
  constexpr absl::string_view kWhatToDo =
      "set data.tokenizer to a directory with a tokenizer, or to \"bytes\" if "
      "the model's tokens are bytes";
  if (data_.tokenizer == kBytesTokenizer) return ByteEncoding();
  if (!data_.tokenizer.empty()) {
    absl::StatusOr<TextEncoding> loaded =
        options_.load_tokenizer(data_.tokenizer);
    if (loaded.ok()) return loaded;
    return Annotate("data.tokenizer", loaded.status());
  }
  std::string missing = "the model has no directory";
  if (!options_.model_directory.empty()) {
    absl::StatusOr<TextEncoding> loaded =
        options_.load_tokenizer(options_.model_directory);
    if (loaded.ok()) return loaded;
    if (!absl::IsNotFound(loaded.status())) {
      return Annotate("the model's tokenizer", loaded.status());
    }
    missing = std::string(loaded.status().message());
  }
  if (MayBeBytes(path)) return ByteEncoding();
  const std::string refusal =
      absl::StrCat("file \"", path,
                   "\" has text, and there is no tokenizer for the model's ",
                   options_.vocabulary, " tokens (", missing, "): ", kWhatToDo);
  if (options_.look_only && options_.sizes_only) {
    options_.say(absl::StrCat("note: to train, ", refusal));
    return ByteEncoding();
  }
  return absl::InvalidArgumentError(refusal);
}

absl::Status DataOpener::LoadEncoding(const std::string& path) {
  if (!encoding_.has_value()) {
    CASTOR_ASSIGN_OR_RETURN(encoding_, FindEncoding(path));
  }
  return absl::OkStatus();
}

// Says that no end token separates the documents of a file of lines.
void DataOpener::TellOfDocuments(absl::string_view key) const {
  if (encoding_->end_of_document >= 0) return;
  const bool around = !encoding_->before.empty() || !encoding_->after.empty();
  options_.say(absl::StrCat(
      "note: ", key, ": documents are not separated by an end-of-text token (",
      encoding_->end_looked_for, ")",
      around ? ", but by what the tokenizer puts around each"
             : ": each follows the one before it at once"));
}

absl::StatusOr<DataFile> DataOpener::OpenCached(absl::string_view key,
                                                const std::string& path,
                                                const LinesKind& lines) {
  const SourceKind kind = lines.kind;
  const bool is_text = kind != SourceKind::kTokenLines;
  if (is_text) CASTOR_RETURN_IF_ERROR(LoadEncoding(path));
  if (!lines.unused.empty()) {
    Say(key, absl::StrCat(
                 "its lines have keys that are not used: ",
                 absl::StrJoin(lines.unused, ", ",
                               [](std::string* out, const std::string& unused) {
                                 out->append(QuotedForMessage(unused));
                               })));
  }
  if (options_.look_only) {
    CASTOR_RETURN_IF_ERROR(SourceReader::Open(path, CutOf(kind)).status());
    return DataFile{
        .size = 0,
        .part = [](const DataPart&)
            -> absl::StatusOr<std::unique_ptr<DataSet>> { return nullptr; }};
  }
  CachedTokensRequest request = {
      .path = path,
      .tokenize = {.kind = kind,
                   .vocabulary = options_.vocabulary,
                   .threads = options_.threads,
                   .progress = nullptr},
      .directory = data_.cache,
      .timeout_seconds = data_.cache_timeout_seconds,
      .say = [&](absl::string_view line) { Say(key, line); }};
  request.tokenize.unused_key = [&](const std::string& unused, int64_t line) {
    if (std::find(lines.unused.begin(), lines.unused.end(), unused) !=
        lines.unused.end()) {
      return;
    }
    Say(key, absl::StrCat("line ", line, " has a key that is not used: ",
                          QuotedForMessage(unused)));
  };
  if (is_text) request.tokenize.encoding = &*encoding_;
  if (kind == SourceKind::kTextLines) TellOfDocuments(key);
  CASTOR_ASSIGN_OR_RETURN(std::shared_ptr<const TokenCache> cache,
                          OpenCachedTokens(request));
  if (is_text) {
    return TokenDataFile(TokensOf(std::move(cache), path));
  }
  return LineDataFile(std::move(cache), path);
}

}  // namespace

absl::StatusOr<DataSplits> OpenData(const DataConfig& data,
                                    const OpenDataOptions& options) {
  DataOpener opener(data, options);
  return OpenDataSplits(data, options.vocabulary, options.seed,
                        [&](absl::string_view key, const std::string& path) {
                          return opener.Open(key, path);
                        });
}

}  // namespace castor
