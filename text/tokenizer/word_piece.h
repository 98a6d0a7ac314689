// WordPiece (Schuster, Nakajima: Japanese and Korean Voice Search, 2012) as
// BERT uses it: from the left, the longest token that the rest of the piece
// begins with. Tokens that do not begin a piece have
// "continuing_subword_prefix" before them. A piece of which some part is no
// token, or that is longer than "max_input_chars_per_word", is one unknown
// token.
#ifndef CASTOR_TEXT_TOKENIZER_WORD_PIECE_H_
#define CASTOR_TEXT_TOKENIZER_WORD_PIECE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/model.h"

namespace castor::text {

absl::StatusOr<std::unique_ptr<const Model>> ReadWordPiece(
    const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_WORD_PIECE_H_
