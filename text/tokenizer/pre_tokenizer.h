// The part of a tokenizer that cuts a text into pieces. No token goes over the
// edge of a piece.
#ifndef CASTOR_TEXT_TOKENIZER_PRE_TOKENIZER_H_
#define CASTOR_TEXT_TOKENIZER_PRE_TOKENIZER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/pieces.h"

namespace castor::text {

// Immutable; any number of threads.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  // Cuts each piece, or rewrites it. ResourceExhausted: a regular expression
  // takes too long, or the text becomes too large.
  virtual absl::Status Apply(Pieces* pieces) const = 0;
};

// Reads a "pre_tokenizer" of a tokenizer.json: BertPreTokenizer, ByteLevel,
// CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Sequence,
// Split, Whitespace, WhitespaceSplit.
absl::StatusOr<std::unique_ptr<const PreTokenizer>> ReadPreTokenizer(
    const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_PRE_TOKENIZER_H_
