// UTF-8: reads its code points one by one, and makes text valid that is not.
//
// A code point is a char32_t. Text inside the tokenizer is valid UTF-8: it is
// made so once, where it comes in (AppendValidUtf8).
#ifndef CASTOR_TEXT_TOKENIZER_UNICODE_UTF8_H_
#define CASTOR_TEXT_TOKENIZER_UNICODE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace castor::text {

inline constexpr char32_t kNumCodePoints = 0x110000;
inline constexpr char32_t kReplacementCharacter = 0xfffd;

// Returns the bytes of the code point that begins with `lead`, in valid UTF-8.
inline int Utf8Length(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  if (byte < 0x80) return 1;
  if (byte < 0xe0) return 2;
  return byte < 0xf0 ? 3 : 4;
}

// Returns true if `byte` begins no code point.
inline bool IsUtf8Continuation(char byte) {
  return (static_cast<uint8_t>(byte) & 0xc0) == 0x80;
}

// Returns the code point at `*place` of valid `text`; moves *place behind it.
inline char32_t NextCodePoint(absl::string_view text, size_t* place) {
  const char* at = text.data() + *place;
  const auto byte = [at](int i) { return static_cast<uint8_t>(at[i]); };
  const int length = Utf8Length(at[0]);
  *place += length;
  switch (length) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    case 3:
      return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 |
             (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
  }
}

// Returns the place of the code point that ends before `place` > 0 of valid
// `text`.
inline size_t PreviousPlace(absl::string_view text, size_t place) {
  do {
    --place;
  } while (place > 0 && IsUtf8Continuation(text[place]));
  return place;
}

void AppendCodePoint(char32_t code_point, std::string* text);

std::u32string CodePoints(absl::string_view valid_text);

bool IsValidUtf8(absl::string_view text);

// Appends `bytes`, in which each longest part that begins a code point and does
// not end it, and each other byte that belongs to none, becomes one U+FFFD, as
// Python's errors="replace" and Rust's from_utf8_lossy do (Unicode 15, section
// 3.9, "U+FFFD Substitution of Maximal Subparts").
void AppendValidUtf8(absl::string_view bytes, std::string* text);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_UNICODE_UTF8_H_
