// The part of a tokenizer that rewrites text before it is cut into pieces.
#ifndef CASTOR_TEXT_TOKENIZER_NORMALIZER_H_
#define CASTOR_TEXT_TOKENIZER_NORMALIZER_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "text/tokenizer/allowance.h"

namespace castor::text {

// A text on its way.
struct NormalizedText {
  std::string text;      // valid UTF-8
  Allowance* allowance;  // not null
  // True if its beginning stems from the beginning of the text that was given
  // to Encode: nothing was taken away before it.
  bool at_start = false;

  size_t size_bytes() const { return text.size(); }
  // Returns true if a text in the making is too large. It need not be finished
  // then, since the caller of the part refuses it (bounded.h).
  bool IsTooLarge(absl::string_view made) const {
    return made.size() > allowance->most_bytes();
  }
};

// Immutable; any number of threads.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  // Rewrites the text. ResourceExhausted: a regular expression takes too long,
  // or the text becomes too large; such a text may also be left, larger than is
  // allowed and unfinished.
  virtual absl::Status Apply(NormalizedText* text) const = 0;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_NORMALIZER_H_
