// The text encoding of a directory with a tokenizer.
#ifndef CASTOR_TEXT_DATA_TOKENIZER_ENCODING_H_
#define CASTOR_TEXT_DATA_TOKENIZER_ENCODING_H_

#include <string>

#include "absl/status/statusor.h"
#include "text/data/text_encoding.h"

namespace castor {

// The tokenizer of `directory`. What the post-processor puts around a text is
// `before` and `after`; what tokenizer_config.json calls eos_token ends
// documents. Errors are text::Tokenizer::Load's; InvalidArgument also: a
// tokenizer_config.json that is none, an eos_token that the tokenizer has not.
absl::StatusOr<TextEncoding> LoadTextEncoding(const std::string& directory);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_TOKENIZER_ENCODING_H_
