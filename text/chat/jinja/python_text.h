// Values as text, as Python writes them.
#ifndef CASTOR_TEXT_CHAT_JINJA_PYTHON_TEXT_H_
#define CASTOR_TEXT_CHAT_JINJA_PYTHON_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/chat/jinja/heap.h"
#include "text/chat/jinja/value.h"

namespace castor::text::jinja {

// Returns "int", "str", "list", ...
absl::string_view TypeName(const Value& value);

// Appends str(value). InvalidArgument: the value is a function or a generator,
// whose text has an address in it, or is nested beyond the bound.
absl::Status AppendStr(const Value& value, Heap* heap, TextBuilder* out);
absl::StatusOr<std::string> Str(const Value& value, Heap* heap);
// Returns str(value) as a value; a string is returned as it is, and a Markup
// stays one if `keep_markup`.
absl::StatusOr<Value> StrValue(const Value& value, bool keep_markup,
                               Heap* heap);

// Appends repr(value).
absl::Status AppendRepr(const Value& value, Heap* heap, TextBuilder* out,
                        int depth = 0);
void AppendReprOfString(absl::string_view text, TextBuilder* out);
// Returns a short repr for messages.
std::string ReprForMessage(const Value& value);
// Returns the shortest digits that give the number again, as float.__repr__
// does.
std::string ReprOfFloat(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool has_indent = false;
  std::string indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// Appends json.dumps(value).
absl::Status AppendJson(const Value& value, const JsonStyle& style, Heap* heap,
                        TextBuilder* out, int depth = 0);

// Appends the result of markupsafe.escape for a text.
void AppendEscaped(absl::string_view text, TextBuilder* out);

// Returns jinja2's UndefinedError for `value`.
absl::Status UndefinedError(const Value& value);

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_PYTHON_TEXT_H_
