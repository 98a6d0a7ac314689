// Characters of UTF-8 in bytes that may be anything.
#ifndef CASTOR_INSIGHT_UTF8_H_
#define CASTOR_INSIGHT_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace castor {

// U+FFFD, which stands for a byte that belongs to no character.
inline constexpr absl::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Bytes of the character that `text`, not empty, begins with; 0: it begins with
// none (Unicode 15, table 3-7: no surrogates, nothing longer than it need be).
size_t CharacterBytes(absl::string_view text);

// The text with each byte that belongs to no character replaced.
std::string ValidUtf8(absl::string_view text);

}  // namespace castor

#endif  // CASTOR_INSIGHT_UTF8_H_
