// Finds where grapheme clusters end (UAX #29), as far as the normalizer
// Precompiled can tell: it looks at clusters of fewer than 6 bytes and takes
// longer ones code point by code point. So flags and the conjuncts of Indic
// scripts, which are longer, are not kept together here.
#ifndef CASTOR_TEXT_TOKENIZER_UNICODE_GRAPHEMES_H_
#define CASTOR_TEXT_TOKENIZER_UNICODE_GRAPHEMES_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace castor::text {

// Returns where the cluster that begins at `begin` of valid `text` ends.
size_t GraphemeEnd(absl::string_view text, size_t begin);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_UNICODE_GRAPHEMES_H_
