#include "text/tokenizer/unicode/utf8.h"

#include <algorithm>
#include <cstring>

namespace castor::text {
namespace {

// The properties of a code point that its first byte tells: how many bytes it
// has, 0 for none, and between which values its second byte is (table 3-7 of
// Unicode 15).
struct Lead {
  int length;
  uint8_t second_min, second_max;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

// Returns how many bytes at the head of `bytes`, which are not empty, belong
// together; *is_valid tells whether they are a code point.
size_t HeadLength(absl::string_view bytes, bool* is_valid) {
  const Lead lead = LeadOf(static_cast<uint8_t>(bytes[0]));
  *is_valid = lead.length == 1;
  if (lead.length <= 1) return 1;
  const size_t most = std::min(bytes.size(), static_cast<size_t>(lead.length));
  size_t good = 1;
  while (good < most) {
    const auto byte = static_cast<uint8_t>(bytes[good]);
    const uint8_t min = good == 1 ? lead.second_min : 0x80;
    const uint8_t max = good == 1 ? lead.second_max : 0xbf;
    if (byte < min || byte > max) break;
    ++good;
  }
  *is_valid = good == static_cast<size_t>(lead.length);
  return good;
}

// Returns how many bytes at the head of `bytes` are valid.
size_t ValidPrefix(absl::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    uint64_t eight;
    if (bytes.size() - i >= sizeof(eight)) {
      std::memcpy(&eight, bytes.data() + i, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof(eight);
        continue;
      }
    }
    bool is_valid = false;
    const size_t length = HeadLength(bytes.substr(i), &is_valid);
    if (!is_valid) break;
    i += length;
  }
  return i;
}

}  // namespace

void AppendCodePoint(char32_t code_point, std::string* text) {
  const auto put = [text](char32_t byte) {
    text->push_back(static_cast<char>(byte));
  };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | code_point >> 6);
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3f));
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

std::u32string CodePoints(absl::string_view valid_text) {
  std::u32string code_points;
  for (size_t i = 0; i < valid_text.size();) {
    code_points.push_back(NextCodePoint(valid_text, &i));
  }
  return code_points;
}

bool IsValidUtf8(absl::string_view text) {
  return ValidPrefix(text) == text.size();
}

void AppendValidUtf8(absl::string_view bytes, std::string* text) {
  while (true) {
    const size_t valid = ValidPrefix(bytes);
    text->append(bytes.data(), valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    bool is_valid = false;
    bytes.remove_prefix(HeadLength(bytes, &is_valid));
    AppendCodePoint(kReplacementCharacter, text);
  }
}

}  // namespace castor::text
