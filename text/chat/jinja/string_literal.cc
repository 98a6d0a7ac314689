#include "text/chat/jinja/string_literal.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text::jinja {

absl::StatusOr<std::string> UnescapeString(absl::string_view literal) {
  std::string out;
  size_t place = 0;
  const auto number = [&](size_t most, int base) {
    uint32_t value = 0;
    size_t count = 0;
    for (; count < most && place < literal.size(); ++count, ++place) {
      const char c = literal[place];
      if (base == 8 ? c < '0' || c > '7' : !absl::ascii_isxdigit(c)) break;
      value = value * base + (absl::ascii_isdigit(c)
                                  ? c - '0'
                                  : absl::ascii_tolower(c) - 'a' + 10);
    }
    return count == most || base == 8 ? value : ~uint32_t{0};
  };
  while (place < literal.size()) {
    const char c = literal[place++];
    if (c != '\\' || place == literal.size()) {
      out.push_back(c);
      continue;
    }
    const char kind = literal[place++];
    switch (kind) {
      case '\n':
        break;
      case '\\':
      case '\'':
      case '"':
        out.push_back(kind);
        break;
      case 'a':
        out.push_back('\a');
        break;
      case 'b':
        out.push_back('\b');
        break;
      case 'f':
        out.push_back('\f');
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 't':
        out.push_back('\t');
        break;
      case 'v':
        out.push_back('\v');
        break;
      case 'N':
        return absl::InvalidArgumentError(
            "a character by its name, \\N{...}, is not supported in a string");
      case 'x':
      case 'u':
      case 'U': {
        const uint32_t value = number(kind == 'x'   ? 2
                                      : kind == 'u' ? 4
                                                    : 8,
                                      16);
        if (value >= kNumCodePoints || (value >= 0xd800 && value < 0xe000)) {
          return absl::InvalidArgumentError(
              absl::StrCat("a string's escape \\", std::string(1, kind),
                           " names no character"));
        }
        AppendCodePoint(value, &out);
        break;
      }
      default:
        if (kind >= '0' && kind <= '7') {
          --place;
          AppendCodePoint(number(3, 8), &out);
        } else {
          out.push_back('\\');
          out.push_back(kind);
        }
    }
  }
  return out;
}

}  // namespace castor::text::jinja
