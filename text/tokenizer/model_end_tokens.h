// The tokens after which a text is over, as a model's own configuration has
// them.
#ifndef CASTOR_TEXT_TOKENIZER_MODEL_END_TOKENS_H_
#define CASTOR_TEXT_TOKENIZER_MODEL_END_TOKENS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor::text {

// Returns "eos_token_id", one or a list, of the file `name` in `directory`:
// config.json or generation_config.json. Empty: there is no such file, or it
// has none. Errors are ReadJsonFile's (tokenizer_files.h); InvalidArgument
// also: its value is no id.
absl::StatusOr<std::vector<int32_t>> EndTokensIn(const std::string& directory,
                                                 absl::string_view name);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_MODEL_END_TOKENS_H_
