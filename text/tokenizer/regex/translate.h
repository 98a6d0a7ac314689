// Translates a pattern of Oniguruma's to a pattern over bytes for PCRE2
// (regex.h).
//
// Taken over: characters and their escapes, sets with ranges, negation, sets
// inside sets and &&, \p{...}, \w \d \s \h and their negations, ".", "^", "$",
// \b \B \A \z \Z, groups, look-around, atomic groups, quantifiers,
// alternatives, (?i) and (?m) for a group or to its end. Refused by name:
// references to groups, names, conditions, POSIX brackets, \X, \R, \G, \K, and
// under (?i) characters outside ASCII.
//
// Where the two libraries read the same text otherwise, Oniguruma counts: "^"
// and "$" are about lines, {,n} has a lower bound of 0, X{n,m}+ repeats X{n,m}
// and is not possessive, \h is a hexadecimal digit.
#ifndef CASTOR_TEXT_TOKENIZER_REGEX_TRANSLATE_H_
#define CASTOR_TEXT_TOKENIZER_REGEX_TRANSLATE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/tokenizer/unicode/code_point_set.h"

namespace castor::text {

struct Translation {
  std::string pattern;   // for PCRE2, without any of its options
  CodePointTable kinds;  // the byte that stands for a character
};

// Translates a pattern. InvalidArgument says what is wrong and at which
// character.
absl::StatusOr<Translation> TranslateRegex(absl::string_view pattern);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_REGEX_TRANSLATE_H_
