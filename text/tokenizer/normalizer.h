// The part of a tokenizer that rewrites text before it is cut into pieces.
#ifndef CASTOR_TEXT_TOKENIZER_NORMALIZER_H_
#define CASTOR_TEXT_TOKENIZER_NORMALIZER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"

namespace castor::text {

// A text on its way.
struct NormalizedText {
  std::string text;  // valid UTF-8
  // Whether what it begins with stems from the beginning of the text that was
  // given to Encode: nothing was taken away before it.
  bool at_start = false;
};

// Immutable; any number of threads.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  // ResourceExhausted: a regular expression takes too long, or the text becomes
  // too large.
  virtual absl::Status Apply(NormalizedText* text) const = 0;
};

// A "normalizer" of a tokenizer.json: BertNormalizer, ByteLevel, Lowercase,
// NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Sequence, Strip,
// StripAccents.
absl::StatusOr<std::unique_ptr<const Normalizer>> ReadNormalizer(
    const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_NORMALIZER_H_
