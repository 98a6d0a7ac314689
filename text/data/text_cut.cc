#include "text/data/text_cut.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace castor {
namespace {

bool IsLetter(char c) { return absl::ascii_isalpha(c); }

bool IsNoSpace(char c) { return !absl::ascii_isspace(c); }

template <typename Accepts>
int64_t FindSpaceBetween(absl::string_view text, int64_t begin, int64_t end,
                         Accepts accepts) {
  for (int64_t i = begin; i < end; ++i) {
    if (text[i] == ' ' && accepts(text[i - 1]) && accepts(text[i + 1])) {
      return i;
    }
  }
  return -1;
}

// The length of the character of UTF-8 that `text` begins with; 0: none.
int CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto continues = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4 || !continues(1)) return 0;
  if (first < 0xe0) return 2;
  if (first < 0xf0) {
    const bool fits =
        (first != 0xe0 || second >= 0xa0) && (first != 0xed || second < 0xa0);
    return fits && continues(2) ? 3 : 0;
  }
  const bool fits =
      (first != 0xf0 || second >= 0x90) && (first != 0xf4 || second < 0x90);
  return fits && continues(2) && continues(3) ? 4 : 0;
}

}  // namespace

int64_t CutText(absl::string_view text) {
  const auto size = static_cast<int64_t>(text.size());
  if (size <= kMinPartBytes) return size;
  // One byte is looked at beyond a cut.
  const int64_t end = std::min(size - 1, kMaxPartBytes);
  int64_t at = FindSpaceBetween(text, kMinPartBytes, end, IsLetter);
  if (at < 0) at = FindSpaceBetween(text, kMinPartBytes, end, IsNoSpace);
  if (at > 0) return at;
  for (at = kMinPartBytes; at < end; ++at) {
    if (text[at - 1] == '\n') return at;
  }
  if (size <= kMaxPartBytes) return size;
  // A character has no more than three bytes after its first.
  for (at = kMaxPartBytes; at > kMaxPartBytes - 3; --at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80) break;
  }
  return at;
}

int64_t FindInvalidUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const int bytes = CharacterBytes(text.substr(i, 4));
    if (bytes == 0) return static_cast<int64_t>(i);
    i += static_cast<size_t>(bytes);
  }
  return -1;
}

}  // namespace castor
