// The files beside a model's weights and config.json that Castor hands on as
// they are: its tokenizer's, a chat template, settings for generation.
#ifndef CASTOR_RUNTIME_WEIGHTS_COPIED_FILES_H_
#define CASTOR_RUNTIME_WEIGHTS_COPIED_FILES_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace castor {

inline constexpr char kGenerationConfigName[] = "generation_config.json";

// Bytes by the file's name.
using CopiedFiles = std::map<std::string, std::string>;

// All such names, sorted.
absl::Span<const absl::string_view> CopiedNames();

// Those that are there: kGenerationConfigName of `model_directory`, all others
// of `tokenizer_directory`. Either may be "", or no directory: it has none.
// FailedPrecondition and others: one is there and cannot be read.
absl::StatusOr<CopiedFiles> ReadCopiedFiles(
    const std::string& tokenizer_directory, const std::string& model_directory);

}  // namespace castor

#endif  // CASTOR_RUNTIME_WEIGHTS_COPIED_FILES_H_
