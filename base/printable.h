// Makes foreign text safe to show: control bytes can move, hide and forge other
// text in a terminal.
#ifndef CASTOR_BASE_PRINTABLE_H_
#define CASTOR_BASE_PRINTABLE_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace castor {

// Returns `text` on one line: newlines become spaces, other control bytes
// become \xNN, also those in UTF-8. All else stays.
inline std::string Printable(absl::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next =
        static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == '\n') {
      shown.push_back(' ');
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppend(&shown, "\\x", absl::Hex(byte, absl::kZeroPad2));
    } else if (byte == 0xc2 && next >= 0x80 && next <= 0x9f) {
      absl::StrAppend(&shown, "\\x", absl::Hex(next, absl::kZeroPad2));
      ++i;
    } else {
      shown.push_back(text[i]);
    }
  }
  return shown;
}

}  // namespace castor

#endif  // CASTOR_BASE_PRINTABLE_H_
