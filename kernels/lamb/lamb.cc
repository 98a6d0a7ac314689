#include "kernels/lamb/lamb.h"

#include "absl/strings/str_cat.h"

namespace castor::kernels {
namespace {

absl::Status CheckRanges(const char* kernel, const LambRange* ranges,
                         int64_t num_ranges) {
  for (int64_t r = 0; r < num_ranges; ++r) {
    const LambRange& range = ranges[r];
    if (range.begin < 0 || range.end < range.begin || range.parameter < 0 ||
        range.hyper.step < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          kernel, ": range ", r, " is [", range.begin, ", ", range.end,
          ") of parameter ", range.parameter, " at step ", range.hyper.step,
          "; give 0 <= begin <= end, a parameter from 0 and a step from 1"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LambMeasureArgs::Check() const {
  if (num_ranges == 0) return absl::OkStatus();
  if ((payload == nullptr && gradient_sum == nullptr) || master == nullptr ||
      m == nullptr || v == nullptr || grad_scale == nullptr ||
      sums == nullptr) {
    return absl::InvalidArgumentError(
        "LambMeasure: a null pointer among master, m, v, grad_scale, sums, or "
        "for both payload and gradient_sum");
  }
  return CheckRanges("LambMeasure", ranges, num_ranges);
}

absl::Status LambApplyArgs::Check() const {
  if (num_ranges == 0) return absl::OkStatus();
  if (payload == nullptr || master == nullptr || m == nullptr || v == nullptr ||
      grad_scale == nullptr || sums == nullptr) {
    return absl::InvalidArgumentError(
        "LambApply: a null pointer among payload, master, m, v, grad_scale, "
        "sums");
  }
  return CheckRanges("LambApply", ranges, num_ranges);
}

}  // namespace castor::kernels
