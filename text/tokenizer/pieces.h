// A text and the pieces that it is cut into. Pre-tokenizers cut them further,
// and a model turns them into tokens.
#ifndef CASTOR_TEXT_TOKENIZER_PIECES_H_
#define CASTOR_TEXT_TOKENIZER_PIECES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "text/tokenizer/allowance.h"

namespace castor::text {

// The bytes [begin, end) of a text; never empty where a function returns.
struct Piece {
  uint32_t begin, end;
};

struct Pieces {
  std::string text;  // valid UTF-8
  std::vector<Piece> pieces;
  // True if the first piece begins where the text that was given to Encode
  // does.
  bool at_start = false;
  Allowance* allowance;  // not null

  size_t size_bytes() const { return text.size(); }
  absl::string_view operator[](const Piece& piece) const {
    return absl::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_PIECES_H_
