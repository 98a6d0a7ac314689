#include "text/tokenizer/byte_level.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

struct Alphabet {
  std::array<char16_t, 256> character_of;
  std::array<int16_t, 512> byte_of;  // -1: none
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet = {};
  for (int16_t& byte : alphabet.byte_of) byte = -1;
  char16_t next = 0x100;
  for (int16_t byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= 0x21 && byte <= 0x7e) ||
                              (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
    const char16_t character =
        is_printable ? static_cast<char16_t>(byte) : next++;
    alphabet.character_of[byte] = character;
    alphabet.byte_of[character] = byte;
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

void AppendByteCharacters(absl::string_view text, std::string* characters) {
  const size_t size = characters->size();
  characters->resize(size + 2 * text.size());
  char* out = characters->data() + size;
  for (const char byte : text) {
    const char16_t c = kAlphabet.character_of[static_cast<uint8_t>(byte)];
    if (c < 0x80) {
      *out++ = static_cast<char>(c);
    } else {
      *out++ = static_cast<char>(0xc0 | c >> 6);
      *out++ = static_cast<char>(0x80 | (c & 0x3f));
    }
  }
  characters->resize(out - characters->data());
}

bool AppendBytesOf(absl::string_view characters, std::string* bytes) {
  const size_t size = bytes->size();
  for (size_t i = 0; i < characters.size();) {
    const char32_t c = NextCodePoint(characters, &i);
    if (c >= kAlphabet.byte_of.size() || kAlphabet.byte_of[c] < 0) {
      bytes->resize(size);
      return false;
    }
    bytes->push_back(static_cast<char>(kAlphabet.byte_of[c]));
  }
  return true;
}

}  // namespace castor::text
