// Opens what "data" of a configuration names (docs/data.md).
#ifndef CASTOR_TEXT_DATA_OPEN_DATA_H_
#define CASTOR_TEXT_DATA_OPEN_DATA_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/config/config.h"
#include "runtime/data/data_splits.h"
#include "text/data/text_encoding.h"

namespace castor {

struct OpenDataOptions {
  int64_t vocabulary = 0;  // the model's
  uint64_t seed = 0;
  int threads = 1;
  // The tokenizer's directory where data.tokenizer names none; "": text has no
  // tokenizer but its bytes.
  std::string tokenizer_directory;
  // Reads a directory's tokenizer; called once at most.
  std::function<absl::StatusOr<TextEncoding>(const std::string& directory)>
      load_tokenizer;
  // Takes lines for the user.
  std::function<void(absl::string_view line)> say;
  // Files that must be tokenised are only looked for: their data sets are null.
  bool look_only = false;
};

// By the end of a file's name: .bin, and .txt without a tokenizer, are read as
// they are (runtime/data/token_file.h); .txt with one, and .jsonl, through
// their token caches (cached_tokens.h). Errors come after the key:
// InvalidArgument also for another end of a name, and for JSON lines with text
// where there is no tokenizer.
absl::StatusOr<DataSplits> OpenData(const DataConfig& data,
                                    const OpenDataOptions& options);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_OPEN_DATA_H_
