// The part of a tokenizer that joins tokens to text.
#ifndef CASTOR_TEXT_TOKENIZER_DECODER_H_
#define CASTOR_TEXT_TOKENIZER_DECODER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"

namespace castor::text {

// Immutable; any number of threads.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Rewrites the tokens, whose concatenation is the text in the end. Valid
  // UTF-8 before and after.
  virtual absl::Status Apply(std::vector<std::string>* tokens) const = 0;
};

// A "decoder" of a tokenizer.json: BPEDecoder, ByteFallback, ByteLevel, Fuse,
// Metaspace, Replace, Sequence, Strip, WordPiece.
absl::StatusOr<std::unique_ptr<const Decoder>> ReadDecoder(
    const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_DECODER_H_
