// Adds to an error where it came from.
#ifndef CASTOR_BASE_ANNOTATE_H_
#define CASTOR_BASE_ANNOTATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error_list.h"

namespace castor {

// Returns `status` with "where: " before its message, or before each error of a
// list (error_list.h); OK stays OK.
inline absl::Status Annotate(absl::string_view where,
                             const absl::Status& status) {
  if (status.ok()) return status;
  if (IsErrorList(status)) {
    std::vector<std::string> errors = ErrorsOf(status);
    for (std::string& error : errors) error = absl::StrCat(where, ": ", error);
    return ErrorList(status.code(), errors);
  }
  return absl::Status(status.code(),
                      absl::StrCat(where, ": ", status.message()));
}

}  // namespace castor

#endif  // CASTOR_BASE_ANNOTATE_H_
