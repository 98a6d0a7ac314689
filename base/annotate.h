// Says where an error came from, on its way to the user.
#ifndef CASTOR_BASE_ANNOTATE_H_
#define CASTOR_BASE_ANNOTATE_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace castor {

// `status` with "where: " before its message; OK stays OK.
inline absl::Status Annotate(absl::string_view where,
                             const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(where, ": ", status.message()));
}

}  // namespace castor

#endif  // CASTOR_BASE_ANNOTATE_H_
