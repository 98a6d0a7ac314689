// A status as a text that another process can read: the code, a space, the
// message.
#ifndef CASTOR_BASE_STATUS_TEXT_H_
#define CASTOR_BASE_STATUS_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace castor {

// "5 no such file". OK has no message: what stands for it may follow the code.
inline std::string StatusText(const absl::Status& status,
                              absl::string_view if_ok = "") {
  return absl::StrCat(static_cast<int>(status.code()), " ",
                      status.ok() ? if_ok : status.message());
}

// What StatusText made `text` of, and if that was OK what followed in *if_ok
// (may be null). Internal: it made no such text.
inline absl::Status ReadStatusText(absl::string_view text,
                                   std::string* if_ok = nullptr) {
  const size_t space = text.find(' ');
  int code = 0;
  if (space == absl::string_view::npos ||
      !absl::SimpleAtoi(text.substr(0, space), &code)) {
    return absl::InternalError("another rank's status cannot be read");
  }
  text.remove_prefix(space + 1);
  if (code == 0 && if_ok != nullptr) *if_ok = std::string(text);
  return absl::Status(static_cast<absl::StatusCode>(code), text);
}

}  // namespace castor

#endif  // CASTOR_BASE_STATUS_TEXT_H_
