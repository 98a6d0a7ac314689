// Cuts a long text where its parts give the tokens of the whole.
#ifndef CASTOR_TEXT_DATA_TEXT_CUT_H_
#define CASTOR_TEXT_DATA_TEXT_CUT_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace castor {

// The least and the most bytes of a part.
inline constexpr int64_t kMinPartBytes = int64_t{1} << 16;
inline constexpr int64_t kMaxPartBytes = int64_t{1} << 18;

// Returns the size of the first part of `text`: all of it where it has no more
// than kMinPartBytes. The caller gives all of the text, or at least
// kMaxPartBytes + 1 bytes; the result depends on those bytes alone. The cut is
// at the first of these that there is in the range:
//  1. before a single space between two of ASCII's letters. No tokenizer that
//     is known here joins what stands on the two sides of it;
//  2. before a single space between two characters that are no white space;
//  3. after the end of a line;
//  4. before a character of UTF-8, at the very end of the range.
int64_t CutText(absl::string_view text);

// Returns the place of the first byte that is no UTF-8 (RFC 3629: no
// surrogates, nothing overlong, nothing above U+10FFFF); -1: there is none.
int64_t FindInvalidUtf8(absl::string_view text);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_TEXT_CUT_H_
