// The part of a tokenizer that joins tokens to text.
#ifndef CASTOR_TEXT_TOKENIZER_DECODER_H_
#define CASTOR_TEXT_TOKENIZER_DECODER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/tokenizer/allowance.h"
#include "text/tokenizer/json_part.h"

namespace castor::text {

// A text is the concatenation of its tokens, once all decoders have run.
struct DecodedText {
  std::vector<std::string> tokens;  // valid UTF-8
  Allowance* allowance;             // not null

  size_t size_bytes() const {
    size_t sum = 0;
    for (const std::string& token : tokens) sum += token.size();
    return sum;
  }
};

// Immutable; any number of threads.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Rewrites the tokens. ResourceExhausted: they become too large, or a regular
  // expression takes too long.
  virtual absl::Status Apply(DecodedText* text) const = 0;
};

// Reads a "decoder" of a tokenizer.json: BPEDecoder, ByteFallback, ByteLevel,
// Fuse, Metaspace, Replace, Sequence, Strip, WordPiece.
absl::StatusOr<std::unique_ptr<const Decoder>> ReadDecoder(
    const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_DECODER_H_
