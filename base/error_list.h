// A status with several errors, one in each line of its message, so that all
// errors of a document are reported together.
#ifndef CASTOR_BASE_ERROR_LIST_H_
#define CASTOR_BASE_ERROR_LIST_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace castor {

// The payload that marks such a status. In a status without it, a line feed in
// the message comes from a name.
inline constexpr char kErrorListUrl[] = "castor/error_list";

inline bool IsErrorList(const absl::Status& status) {
  return status.GetPayload(kErrorListUrl).has_value();
}

// Returns a status whose message has one of `errors` in each line; there is at
// least one.
inline absl::Status ErrorList(absl::StatusCode code,
                              absl::Span<const std::string> errors) {
  std::vector<std::string> lines;
  for (const std::string& error : errors) {
    lines.push_back(absl::StrReplaceAll(error, {{"\n", " "}}));
  }
  absl::Status status(code, absl::StrJoin(lines, "\n"));
  if (lines.size() > 1) status.SetPayload(kErrorListUrl, absl::Cord());
  return status;
}

// Returns the errors of `status`, which is not OK, each without a line feed.
inline std::vector<std::string> ErrorsOf(const absl::Status& status) {
  if (IsErrorList(status)) return absl::StrSplit(status.message(), '\n');
  return {absl::StrReplaceAll(status.message(), {{"\n", " "}})};
}

}  // namespace castor

#endif  // CASTOR_BASE_ERROR_LIST_H_
