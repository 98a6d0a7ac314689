#include "kernels/head_loss/head_loss.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/head_loss/bad_target.h"

namespace castor::kernels {
namespace {

absl::Status CheckShape(const HeadLossShape& shape) {
  if (shape.rows >= 0 && shape.channels >= 1 && shape.vocabulary >= 1 &&
      shape.vocabulary <= std::numeric_limits<int32_t>::max()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("head loss of ", shape.rows, " rows, ", shape.channels,
                   " channels and a vocabulary of ", shape.vocabulary,
                   ": sizes must be positive, and the vocabulary fit 31 bits"));
}

}  // namespace

absl::Status BadTarget(int64_t target, int64_t row, int64_t vocabulary) {
  return absl::InvalidArgumentError(
      absl::StrCat("the target of row ", row, " is token ", target,
                   ", outside the vocabulary [0, ", vocabulary,
                   "): check that the data and the model use one tokenizer"));
}

absl::Status HeadLossForwardArgs::Check() const { return CheckShape(shape); }

absl::Status HeadLossBackwardArgs::Check() const {
  if (absl::Status s = CheckShape(shape); !s.ok()) return s;
  if (accumulate_dw && dw == w && dw != nullptr) {
    return absl::InvalidArgumentError(
        "head loss: dw cannot be added to what is there and take over the "
        "place of w; give dw a place of its own");
  }
  if (db != nullptr && bias == nullptr) {
    return absl::InvalidArgumentError(
        "head loss: the gradient of a bias is wanted, and there is none");
  }
  if (accumulate_db && db == bias && db != nullptr) {
    return absl::InvalidArgumentError(
        "head loss: db cannot be added to what is there and take over the "
        "place of the bias; give db a place of its own");
  }
  return absl::OkStatus();
}

absl::Status HeadLossForwardArgs::DescribeFault(const GpuFault& fault) {
  return BadTarget(fault.detail[0], fault.detail[1], fault.detail[2]);
}

absl::Status HeadLossBackwardArgs::DescribeFault(const GpuFault& fault) {
  return BadTarget(fault.detail[0], fault.detail[1], fault.detail[2]);
}

}  // namespace castor::kernels
