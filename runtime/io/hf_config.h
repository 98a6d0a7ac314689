// Hugging Face's config.json of a GPT-2: read into a ModelConfig and written
// from one (transformers, GPT2Config; the file that save_pretrained writes).
//
// Read: the keys that ModelConfig has, with Hugging Face's defaults where they
// are absent. "model_type" must be "gpt2". What would change the maths and
// Castor does not do is refused by name unless it has its neutral value; keys
// without influence on training (generation, summaries, tokens) are ignored.
#ifndef CASTOR_RUNTIME_IO_HF_CONFIG_H_
#define CASTOR_RUNTIME_IO_HF_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/config/model_config.h"

namespace castor {

// `source` names the text in messages. InvalidArgument: malformed, out of
// range, or unsupported. The result has neither `pretrained` nor `frozen`.
absl::StatusOr<ModelConfig> ParseHfConfig(absl::string_view text,
                                          const std::string& source);

// DIR/config.json. NotFound when it is not there.
absl::StatusOr<ModelConfig> ReadHfConfig(const std::string& directory);

// The text that GPT2LMHeadModel.from_pretrained takes, with sorted keys and
// fp32 as the weights' type. ParseHfConfig gives the same config back.
std::string FormatHfConfig(const ModelConfig& config);

// Writes DIR/config.json, atomically.
absl::Status WriteHfConfig(const ModelConfig& config,
                           const std::string& directory);

}  // namespace castor

#endif  // CASTOR_RUNTIME_IO_HF_CONFIG_H_
