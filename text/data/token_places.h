// Finds where the tokens of a text stand in it.
#ifndef CASTOR_TEXT_DATA_TOKEN_PLACES_H_
#define CASTOR_TEXT_DATA_TOKEN_PLACES_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "text/data/text_encoding.h"

namespace castor {

// The bytes [begin, end) of a text. A token that a tokenizer puts before the
// text, as the space of SentencePiece, has the byte that follows.
struct TokenPlace {
  int64_t begin = 0, end = 0;
};

// Returns the places of `ids`, which encoding.encode has made of `text`, in
// their order. White space may be in none of them, where a tokenizer passes it
// over. Returns an empty list where they cannot be told, since the tokenizer
// rewrites the text.
std::vector<TokenPlace> PlacesOfTokens(const TextEncoding& encoding,
                                       absl::string_view text,
                                       absl::Span<const int32_t> ids);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_TOKEN_PLACES_H_
