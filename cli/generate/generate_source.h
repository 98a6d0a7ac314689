// The model from which castor generate takes its text, and the files that go
// with it.
#ifndef CASTOR_CLI_GENERATE_GENERATE_SOURCE_H_
#define CASTOR_CLI_GENERATE_GENERATE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cli/run/kept_files.h"
#include "run/config/config.h"

namespace castor::cli {

struct GenerateSource {
  Config config;           // with the model's sizes
  std::string checkpoint;  // with its values; "": the pretrained ones
  // The directory of its tokenizer, or "bytes"; "": it has none.
  std::string tokenizer;
  bool has_tokenizer = false;  // there must be one in that place
  // The tokens after which a text is over by the model's own files:
  // "eos_token_id", one or a list, of generation_config.json and config.json.
  std::vector<int32_t> end_tokens;
  std::unique_ptr<UnpackedFiles> unpacked;  // `tokenizer`, of a checkpoint
};

// Finds the model that `source` names: a Hugging Face directory, a checkpoint,
// or a directory of checkpoints, of which it takes the newest. `overrides` are
// applied to its configuration.
absl::StatusOr<GenerateSource> FindGenerateSource(
    const std::string& source, absl::Span<const std::string> overrides);

}  // namespace castor::cli

#endif  // CASTOR_CLI_GENERATE_GENERATE_SOURCE_H_
