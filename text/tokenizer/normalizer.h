// The part of a tokenizer that rewrites text before it is cut into pieces.
#ifndef CASTOR_TEXT_TOKENIZER_NORMALIZER_H_
#define CASTOR_TEXT_TOKENIZER_NORMALIZER_H_

#include <string>

#include "absl/status/status.h"

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

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_NORMALIZER_H_
