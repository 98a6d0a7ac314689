// Writes JSON piece by piece into a string, which the caller may empty between
// calls (to stream it to a file).
//
// The output is valid JSON for every input: bytes that are no UTF-8 become
// U+FFFD, integers beyond 2^53 - 1 (which readers of JSON cannot tell apart)
// stop there, numbers that are not finite become null. It can stand inside an
// HTML <script>: "<", ">" and "&" are escaped.
#ifndef CASTOR_INSIGHT_JSON_WRITER_H_
#define CASTOR_INSIGHT_JSON_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace castor {

class JsonWriter {
 public:
  static constexpr int64_t kMaxInteger = (int64_t{1} << 53) - 1;

  // `out` outlives the writer.
  explicit JsonWriter(std::string* out) : out_(out) {}

  // Objects and arrays are closed in the reverse order of opening.
  void BeginObject() { Open('{'); }
  void EndObject() { Close('}'); }
  void BeginArray() { Open('['); }
  void EndArray() { Close(']'); }
  void Key(absl::string_view key);

  void Int(int64_t value);
  void Double(double value);
  void Bool(bool value) { Raw(value ? "true" : "false"); }
  void Null() { Raw("null"); }
  void String(absl::string_view text);
  // One JSON value as it stands.
  void Raw(absl::string_view json);

  // A key and its value.
  void Int(absl::string_view key, int64_t value) {
    Key(key);
    Int(value);
  }
  void Double(absl::string_view key, double value) {
    Key(key);
    Double(value);
  }
  void Bool(absl::string_view key, bool value) {
    Key(key);
    Bool(value);
  }
  void String(absl::string_view key, absl::string_view text) {
    Key(key);
    String(text);
  }

 private:
  void Open(char bracket);
  void Close(char bracket);
  void Separate();
  void AppendEscaped(absl::string_view text);

  std::string* const out_;
  bool needs_comma_ = false;
};

}  // namespace castor

#endif  // CASTOR_INSIGHT_JSON_WRITER_H_
