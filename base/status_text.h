// A status as a text that another process can read: the code, a "+" if it is a
// list of errors (error_list.h), a space, the message.
#ifndef CASTOR_BASE_STATUS_TEXT_H_
#define CASTOR_BASE_STATUS_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/error_list.h"

namespace castor {

// Returns "5 no such file". OK has no message; `if_ok` follows its code.
inline std::string StatusText(const absl::Status& status,
                              absl::string_view if_ok = "") {
  return absl::StrCat(static_cast<int>(status.code()),
                      IsErrorList(status) ? "+ " : " ",
                      status.ok() ? if_ok : status.message());
}

// Reads a text of StatusText; for OK sets *if_ok (may be null) to the text
// after the code. Internal: no text of StatusText.
inline absl::Status ReadStatusText(absl::string_view text,
                                   std::string* if_ok = nullptr) {
  const size_t space = text.find(' ');
  absl::string_view number = text.substr(0, space);
  const bool is_list = absl::ConsumeSuffix(&number, "+");
  int code = 0;
  if (space == absl::string_view::npos || !absl::SimpleAtoi(number, &code)) {
    return absl::InternalError("another rank's status cannot be read");
  }
  text.remove_prefix(space + 1);
  if (code == 0 && if_ok != nullptr) *if_ok = std::string(text);
  const auto status_code = static_cast<absl::StatusCode>(code);
  if (is_list && code != 0) {
    const std::vector<std::string> errors = absl::StrSplit(text, '\n');
    return ErrorList(status_code, errors);
  }
  return absl::Status(status_code, text);
}

}  // namespace castor

#endif  // CASTOR_BASE_STATUS_TEXT_H_
