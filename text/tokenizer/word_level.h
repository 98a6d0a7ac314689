// A vocabulary of whole words: each piece is a token, or the unknown one.
#ifndef CASTOR_TEXT_TOKENIZER_WORD_LEVEL_H_
#define CASTOR_TEXT_TOKENIZER_WORD_LEVEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/model.h"

namespace castor::text {

absl::StatusOr<std::unique_ptr<const Model>> ReadWordLevel(
    const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_WORD_LEVEL_H_
