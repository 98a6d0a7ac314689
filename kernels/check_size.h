// Checks of sizes for all operators.
#ifndef CASTOR_KERNELS_CHECK_SIZE_H_
#define CASTOR_KERNELS_CHECK_SIZE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace castor::kernels {

// Returns InvalidArgument, naming the operator `what`, if `size` is negative.
inline absl::Status CheckSize(absl::string_view what, int64_t size) {
  if (size >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": size is ", size, "; give 0 or more elements"));
}

// Checks the sizes of an operator on rows of channels.
inline absl::Status CheckRows(absl::string_view what, int64_t rows,
                              int64_t channels) {
  if (rows >= 0 && channels >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": shape is [", rows, ", ", channels,
                   "]; give at least 0 rows and at least 1 channel"));
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_CHECK_SIZE_H_
