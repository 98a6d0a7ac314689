#include "insight/json_writer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "insight/utf8.h"

namespace castor {
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
      absl::StrAppend(out_, kReplacementCharacter);
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
