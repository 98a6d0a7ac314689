#include "text/data/open_data.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"
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
  bool HasTokenizer() const {
    return data_.tokenizer != kBytesTokenizer &&
           !(data_.tokenizer.empty() && options_.tokenizer_directory.empty());
  }
  absl::StatusOr<const TextEncoding*> Encoding(const std::string& path);
  absl::StatusOr<DataFile> OpenCached(absl::string_view key,
                                      const std::string& path, SourceKind kind);

  const DataConfig& data_;
  const OpenDataOptions& options_;
  std::optional<TextEncoding> encoding_;
};

absl::StatusOr<DataFile> DataOpener::Open(absl::string_view key,
                                          const std::string& path) {
  const bool text = absl::EndsWith(path, ".txt");
  if (absl::EndsWith(path, ".bin") || (text && !HasTokenizer())) {
    CASTOR_ASSIGN_OR_RETURN(std::shared_ptr<const TokenFile> file,
                            TokenFile::Open(path, data_.token_type));
    return TokenDataFile(std::move(file));
  }
  if (text) return OpenCached(key, path, SourceKind::kText);
  if (!absl::EndsWith(path, ".jsonl")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "file \"", path,
        "\" ends neither in .txt (text; without a tokenizer its bytes are "
        "tokens) nor in .jsonl (lines with \"text\" or \"input_ids\") nor in "
        ".bin (integers of data.token_type)"));
  }
  CASTOR_ASSIGN_OR_RETURN(const SourceKind kind, KindOfLines(path));
  return OpenCached(key, path, kind);
}

absl::StatusOr<const TextEncoding*> DataOpener::Encoding(
    const std::string& path) {
  if (encoding_.has_value()) return &*encoding_;
  if (HasTokenizer()) {
    const bool named = !data_.tokenizer.empty();
    const std::string& directory =
        named ? data_.tokenizer : options_.tokenizer_directory;
    absl::StatusOr<TextEncoding> loaded = options_.load_tokenizer(directory);
    if (!loaded.ok()) {
      return Annotate(named ? "data.tokenizer" : "the model's tokenizer",
                      loaded.status());
    }
    encoding_ = *std::move(loaded);
  } else if (data_.tokenizer == kBytesTokenizer) {
    encoding_ = ByteEncoding();
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "file \"", path,
        "\" has text, and there is no tokenizer: set data.tokenizer to a "
        "directory with a tokenizer.json or a tokenizer.model, or to "
        "\"bytes\""));
  }
  return &*encoding_;
}

absl::StatusOr<DataFile> DataOpener::OpenCached(absl::string_view key,
                                                const std::string& path,
                                                SourceKind kind) {
  if (options_.look_only) {
    CASTOR_RETURN_IF_ERROR(SourceReader::Open(path, CutOf(kind)).status());
    return DataFile{
        .size = 0,
        .part = [](const DataPart&)
            -> absl::StatusOr<std::unique_ptr<DataSet>> { return nullptr; }};
  }
  CachedTokensRequest request = {.path = path,
                                 .tokenize = {.kind = kind,
                                              .vocabulary = options_.vocabulary,
                                              .threads = options_.threads,
                                              .progress = nullptr},
                                 .directory = data_.cache,
                                 .say = [&](absl::string_view line) {
                                   options_.say(absl::StrCat(key, ": ", line));
                                 }};
  if (kind != SourceKind::kTokenLines) {
    CASTOR_ASSIGN_OR_RETURN(request.tokenize.encoding, Encoding(path));
  }
  CASTOR_ASSIGN_OR_RETURN(std::shared_ptr<const TokenCache> cache,
                          OpenCachedTokens(request));
  if (kind != SourceKind::kTokenLines) {
    return TokenDataFile(TokensOf(std::move(cache), path));
  }
  CASTOR_ASSIGN_OR_RETURN(const int64_t cut,
                          cache->CountLonger(data_.sequence_length));
  if (cut > 0) {
    options_.say(absl::StrCat(
        key, ": ", cut, " of ", cache->footer().lines,
        " lines are cut to data.sequence_length (", data_.sequence_length,
        " tokens); the longest has ", cache->footer().longest));
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
