// Characters as Python's str knows them: characters.inc, which
// make_characters.py writes. Lower case is that of text/tokenizer/unicode.
#ifndef CASTOR_TEXT_CHAT_JINJA_CHARACTERS_H_
#define CASTOR_TEXT_CHAT_JINJA_CHARACTERS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace castor::text::jinja {

// Each returns for one code point the result of Python's str.isX().
bool IsPrintable(char32_t c);
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);
bool IsNumeric(char32_t c);
bool IsLower(char32_t c);
bool IsUpper(char32_t c);
bool IsTitle(char32_t c);  // such as U+01C5, and no capital letter
bool IsSpace(char32_t c);
// Returns true for a character at which str.splitlines() ends a line.
bool IsLineEnd(char32_t c);

// The methods of str; `text` is valid UTF-8, and their results have at most
// three times as many bytes.
std::string ToLower(absl::string_view text);
std::string ToUpper(absl::string_view text);
std::string ToTitle(absl::string_view text);
std::string Capitalized(absl::string_view text);

int64_t NumCodePoints(absl::string_view text);

// Return where `text` begins and ends without spaces, as strip() has it.
size_t SpaceAtBegin(absl::string_view text);
size_t EndWithoutSpace(absl::string_view text);

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_CHARACTERS_H_
