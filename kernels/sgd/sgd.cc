#include "kernels/sgd/sgd.h"

#include "absl/strings/str_cat.h"

namespace castor::kernels {

absl::Status SgdArgs::Check() const {
  const int states = arrays.bits == 0 ? 0 : kStates;
  for (int64_t r = 0; r < num_ranges; ++r) {
    if (states > 0 || ranges[r].hyper.momentum == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "SgdUpdate: range ", r,
        " has momentum, and there are no states: give 8, 16 or 32 bits"));
  }
  return CheckStateUpdate("SgdUpdate", arrays, states, ranges, num_ranges);
}

}  // namespace castor::kernels
