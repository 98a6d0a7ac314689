// The text between the quotes of a template's string.
#ifndef CASTOR_TEXT_CHAT_JINJA_STRING_LITERAL_H_
#define CASTOR_TEXT_CHAT_JINJA_STRING_LITERAL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor::text::jinja {

// Returns the text with Python's escapes replaced; a backslash before any other
// character stays. InvalidArgument: \N{...}, half a surrogate pair, an escape
// that is cut short.
absl::StatusOr<std::string> UnescapeString(absl::string_view literal);

}  // namespace castor::text::jinja

#endif  // CASTOR_TEXT_CHAT_JINJA_STRING_LITERAL_H_
