// The text encoding of a directory with a tokenizer.
#ifndef CASTOR_TEXT_DATA_TOKENIZER_ENCODING_H_
#define CASTOR_TEXT_DATA_TOKENIZER_ENCODING_H_

#include <string>

#include "absl/status/statusor.h"
#include "text/data/text_encoding.h"

namespace castor {

// Loads the tokenizer of `directory`. The tokens that the post-processor puts
// around a text are `before` and `after`. Documents end with the tokenizer's
// end token or, where it has none, with the eos_token_id of config.json or
// generation_config.json, the first that the tokenizer knows. Errors are
// text::Tokenizer::Load's and text::EndTokensIn's.
absl::StatusOr<TextEncoding> LoadTextEncoding(const std::string& directory);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_TOKENIZER_ENCODING_H_
