#include "kernels/packed_adam/packed_adam.h"

#include "absl/strings/str_cat.h"

namespace castor::kernels {

absl::Status PackedAdamArgs::Check() const {
  if (num_ranges == 0) return absl::OkStatus();
  if (payload == nullptr || master == nullptr || m == nullptr || v == nullptr ||
      grad_scale == nullptr) {
    return absl::InvalidArgumentError(
        "PackedAdamUpdate: a null pointer among payload, master, m, v, "
        "grad_scale; only gradient_sum may be null");
  }
  if ((from.master == nullptr) != (from.m == nullptr) ||
      (from.master == nullptr) != (from.v == nullptr) ||
      (gradient != nullptr && gradient_sum != nullptr)) {
    return absl::InvalidArgumentError(
        "PackedAdamUpdate: out of place it reads master, m and v, all three; "
        "and gradients from one place");
  }
  if ((moment_bits != 8 && moment_bits != 16) || elements % kStateTile != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PackedAdamUpdate: moments of ", moment_bits, " bits, of ", elements,
        " elements: give 8 or 16 bits, and a multiple "
        "of ",
        kStateTile, " elements"));
  }
  for (int64_t r = 0; r < num_ranges; ++r) {
    const PackedAdamRange& range = ranges[r];
    if (range.begin < 0 || range.end < range.begin || range.end > elements ||
        range.begin % kStateTile != 0 || range.first % kStateTile != 0 ||
        range.hyper.step < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "PackedAdamUpdate: range ", r, " is [", range.begin, ", ", range.end,
          ") of ", elements, " elements, from its parameter's element ",
          range.first, ", at step ", range.hyper.step,
          "; ranges begin at "
          "multiples of ",
          kStateTile, ", and steps count from 1"));
    }
  }
  return absl::OkStatus();
}

}  // namespace castor::kernels
