#include "kernels/state_update/state_update.h"

#include "absl/strings/str_cat.h"

namespace castor::kernels {

absl::Status CheckStateArrays(const char* kernel, const StateArrays& arrays,
                              int num_states) {
  bool null = arrays.payload == nullptr || arrays.master == nullptr ||
              arrays.grad_scale == nullptr;
  bool half = false;
  for (int i = 0; i < num_states; ++i) {
    null |= arrays.states[i] == nullptr;
    half |=
        (arrays.from.master == nullptr) != (arrays.from.states[i] == nullptr);
  }
  if (null) {
    return absl::InvalidArgumentError(absl::StrCat(
        kernel,
        ": a null pointer among payload, master, the states and grad_scale"));
  }
  if (half || (arrays.gradient != nullptr && arrays.gradient_sum != nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat(
        kernel,
        ": out of place it reads master and all states; and gradients from "
        "one place"));
  }
  const StateFormat master = arrays.master_format;
  if (master != StateFormat::kFloat32 &&
      (arrays.dtype != DType::kBFloat16 || IsEightBits(master))) {
    return absl::InvalidArgumentError(absl::StrCat(
        kernel, ": masters of parameters in ", DTypeName(arrays.dtype),
        " are fp32; those of parameters in bf16 may be bf16 or split, too"));
  }
  const int bits = arrays.bits;
  const bool known =
      num_states == 0 ? bits == 0 : bits == 8 || bits == 16 || bits == 32;
  if (!known || arrays.elements % kStateTile != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(kernel, ": ", num_states, " states of ", bits,
                     " bits, of ", arrays.elements,
                     " elements: give 8, 16 or 32 bits, 0 if there are no "
                     "states, and a multiple of ",
                     kStateTile, " elements"));
  }
  return absl::OkStatus();
}

absl::Status CheckStateRange(const char* kernel, int64_t elements,
                             int64_t number, int64_t begin, int64_t end,
                             int64_t first, int64_t step) {
  if (begin >= 0 && begin <= end && end <= elements &&
      begin % kStateTile == 0 && first % kStateTile == 0 && step >= 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      kernel, ": range ", number, " is [", begin, ", ", end, ") of ", elements,
      " elements, from its parameter's element ", first, ", at step ", step,
      "; ranges begin at multiples of ", kStateTile,
      ", and steps count from 1"));
}

}  // namespace castor::kernels
