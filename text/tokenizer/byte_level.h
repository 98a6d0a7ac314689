// GPT-2's alphabet for bytes: each byte as one character that can be printed
// (Radford et al., 2019, https://github.com/openai/gpt-2, src/encoder.py,
// bytes_to_unicode). Printable bytes of Latin-1 stand for themselves; the
// others, in their order, are U+0100, U+0101, ...
#ifndef CASTOR_TEXT_TOKENIZER_BYTE_LEVEL_H_
#define CASTOR_TEXT_TOKENIZER_BYTE_LEVEL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace castor::text {

// Appends the characters of the bytes of `text`.
void AppendByteCharacters(absl::string_view text, std::string* characters);

// Appends the bytes that `characters`, valid UTF-8, stand for. Returns false,
// and appends nothing, if one of them stands for none.
bool AppendBytesOf(absl::string_view characters, std::string* bytes);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_BYTE_LEVEL_H_
