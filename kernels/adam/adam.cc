#include "kernels/adam/adam.h"

#include "absl/strings/str_cat.h"

namespace castor::kernels {

absl::Status AdamArgs::Check() const {
  if (num_ranges == 0) return absl::OkStatus();
  if (payload == nullptr || master == nullptr || m == nullptr || v == nullptr ||
      grad_scale == nullptr) {
    return absl::InvalidArgumentError(
        "AdamUpdate: a null pointer among payload, master, m, v, grad_scale; "
        "only gradient_sum may be null");
  }
  if ((from.master == nullptr) != (from.m == nullptr) ||
      (from.master == nullptr) != (from.v == nullptr) ||
      (gradient != nullptr && gradient_sum != nullptr)) {
    return absl::InvalidArgumentError(
        "AdamUpdate: out of place it reads master, m and v, all three; and "
        "gradients from one place");
  }
  for (int64_t r = 0; r < num_ranges; ++r) {
    const AdamRange& range = ranges[r];
    if (range.begin < 0 || range.end < range.begin || range.hyper.step < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("AdamUpdate: range ", r, " is [", range.begin, ", ",
                       range.end, ") at step ", range.hyper.step,
                       "; give 0 <= begin <= end and a step from 1"));
    }
  }
  return absl::OkStatus();
}

}  // namespace castor::kernels
