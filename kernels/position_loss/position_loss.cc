#include "kernels/position_loss/position_loss.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/position_loss/bad_position.h"

namespace castor::kernels {
namespace {

absl::Status CheckShape(const PositionLossShape& shape) {
  if (shape.samples >= 0 && shape.positions >= 1 && shape.columns >= 1 &&
      shape.column >= 0 && shape.column < shape.columns &&
      shape.samples <= std::numeric_limits<int32_t>::max() / shape.positions) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "position loss of column ", shape.column, " of ", shape.columns,
      " and of ", shape.samples, " samples of ", shape.positions,
      " positions: sizes must be positive, rows fit 31 bits, and the column be "
      "one of these"));
}

}  // namespace

absl::Status BadPosition(int64_t target, int64_t row, int64_t tokens) {
  if (tokens == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("row ", row, " has the target ", target,
                     ", and is not the first token of its document, which "
                     "alone says a position"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the target of the document at row ", row, " is position ",
                   target, ", outside of its tokens [0, ", tokens, ")"));
}

absl::Status PositionLossForwardArgs::Check() const {
  return CheckShape(shape);
}

absl::Status PositionLossBackwardArgs::Check() const {
  return CheckShape(shape);
}

absl::Status PositionLossForwardArgs::DescribeFault(const GpuFault& fault) {
  return BadPosition(fault.detail[0], fault.detail[1], fault.detail[2]);
}

}  // namespace castor::kernels
