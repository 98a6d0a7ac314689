#include "tracer/analysis/json_writer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace castor {
namespace {

// Bytes of the UTF-8 character that `text` begins with; 0: it begins with none
// (Unicode 15, table 3-7: no surrogates, nothing longer than it need be).
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const auto continues = [&](size_t i, int low, int high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const int lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const int low = lead == 0xE0 ? 0xA0 : 0x80;
    const int high = lead == 0xED ? 0x9F : 0xBF;
    return continues(1, low, high) && continues(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const int low = lead == 0xF0 ? 0x90 : 0x80;
    const int high = lead == 0xF4 ? 0x8F : 0xBF;
    return continues(1, low, high) && continues(2, 0x80, 0xBF) &&
                   continues(3, 0x80, 0xBF)
               ? 4
               : 0;
  }
  return 0;
}

}  // namespace

void JsonWriter::Separate() {
  if (needs_comma_) out_->push_back(',');
  needs_comma_ = true;
}

void JsonWriter::Open(char bracket) {
  Separate();
  out_->push_back(bracket);
  needs_comma_ = false;
}

void JsonWriter::Close(char bracket) {
  out_->push_back(bracket);
  needs_comma_ = true;
}

void JsonWriter::Key(absl::string_view key) {
  Separate();
  out_->push_back('"');
  AppendEscaped(key);
  out_->append("\":");
  needs_comma_ = false;
}

void JsonWriter::Int(int64_t value) {
  Separate();
  absl::StrAppend(out_, std::clamp(value, -kMaxInteger, kMaxInteger));
}

void JsonWriter::Double(double value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  absl::StrAppendFormat(out_, "%.17g", value);
}

void JsonWriter::String(absl::string_view text) {
  Separate();
  out_->push_back('"');
  AppendEscaped(text);
  out_->push_back('"');
}

void JsonWriter::Raw(absl::string_view json) {
  Separate();
  out_->append(json.data(), json.size());
}

void JsonWriter::AppendEscaped(absl::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  size_t plain = 0;  // what came since is written as it is
  size_t i = 0;
  const auto flush = [&] { out_->append(text.data() + plain, i - plain); };
  while (i < text.size()) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const size_t bytes = CharacterBytes(text.substr(i));
    const bool special = c < 0x20 || c == '"' || c == '\\' || c == '<' ||
                         c == '>' || c == '&' || c == 0x7F;
    if (bytes > 0 && !special) {
      i += bytes;
      continue;
    }
    flush();
    if (bytes == 0) {
      out_->append("\xEF\xBF\xBD");
    } else if (c == '"' || c == '\\') {
      out_->push_back('\\');
      out_->push_back(static_cast<char>(c));
    } else {
      out_->append("\\u00");
      out_->push_back(kHex[c >> 4]);
      out_->push_back(kHex[c & 15]);
    }
    plain = ++i;
  }
  flush();
}

}  // namespace castor
