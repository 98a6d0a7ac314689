// A unigram language model (Kudo: Subword Regularization, 2018): of all ways
// to cut a piece into tokens, the one whose scores, log-probabilities, have the
// largest sum. A character that is no token by itself may be an unknown one, at
// the least score of all less 10; neighbouring unknown ones are one token.
// With "byte_fallback" an unknown token becomes the tokens "<0xNN>" of its
// bytes, if all of them are there.
//
// Cost: the piece's size times the longest token's.
#ifndef CASTOR_TEXT_TOKENIZER_UNIGRAM_H_
#define CASTOR_TEXT_TOKENIZER_UNIGRAM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/model.h"

namespace castor::text {

absl::StatusOr<std::unique_ptr<const Model>> ReadUnigram(const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_UNIGRAM_H_
