// A status that says several errors, each of which is told in a line of its
// own: what is wrong with a document is said all at once.
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

// The payload by which such a status is known. Without it, a line feed in a
// message is one that came out of a name.
inline constexpr char kErrorListUrl[] = "castor/error_list";

inline bool IsErrorList(const absl::Status& status) {
  return status.GetPayload(kErrorListUrl).has_value();
}

// A status whose message has one of `errors`, of which there is at least one,
// in each line.
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

// The errors of `status`, which is not OK, each without a line feed.
inline std::vector<std::string> ErrorsOf(const absl::Status& status) {
  if (IsErrorList(status)) return absl::StrSplit(status.message(), '\n');
  return {absl::StrReplaceAll(status.message(), {{"\n", " "}})};
}

}  // namespace castor

#endif  // CASTOR_BASE_ERROR_LIST_H_
