// Properties of code points, as PyPI's `tokenizers` has them: its parts stand
// on libraries with Unicode data of different versions, so that the same word
// names different sets (tables.inc, which make_tables.py measures).
#ifndef CASTOR_TEXT_TOKENIZER_UNICODE_UNICODE_SETS_H_
#define CASTOR_TEXT_TOKENIZER_UNICODE_UNICODE_SETS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "text/tokenizer/unicode/code_point_set.h"

namespace castor::text {

// The properties of one code point, each a bit of CodePointTraits.
enum class Trait : uint8_t {
  kWhitespace = 1,      // Rust's char::is_whitespace, and \s of its regex crate
  kNumeric = 2,         // Rust's char::is_numeric
  kWord = 4,            // \w of Rust's regex crate
  kPunctuation = 8,     // BERT's and the pre-tokenizer Punctuation's
  kNonspacing = 16,     // a mark that BERT's normalizer strips
  kOther = 32,          // a control character that BERT's normalizer removes
  kCombiningMark = 64,  // removed by the normalizer StripAccents
};

bool Has(char32_t code_point, Trait trait);

// Returns the set that a regular expression means by \p{name}: a general
// category ("L", "Nd", "Letter", ...), a script ("Han"), "Any". Case, spaces,
// hyphens and underscores do not matter. None: no such name is known here.
std::optional<CodePointSet> PropertySet(absl::string_view name);

// \w and \s of regular expressions. \d is PropertySet("Nd").
const CodePointSet& RegexWordSet();
const CodePointSet& RegexSpaceSet();

// Appends Rust's char::to_lowercase, one or two code points, to *text.
void AppendLowercase(char32_t code_point, std::string* text);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_UNICODE_UNICODE_SETS_H_
