#include "kernels/attention/attention.h"

#include "absl/strings/str_cat.h"

namespace castor::kernels {

absl::Status CheckAttentionShape(const AttentionShape& shape) {
  const auto bad = [&](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("attention of ", shape.batch, " x ", shape.positions,
                     " positions, ", shape.heads, " heads of ", shape.head_size,
                     ", dropout ", shape.dropout, ": ", what));
  };
  if (shape.batch < 0 || shape.positions < 0 || shape.heads < 0 ||
      shape.head_size < 1) {
    return bad("a size is negative or the head size is not positive");
  }
  if (shape.positions > kMaxAttentionPositions ||
      shape.head_size > kMaxAttentionHeadSize) {
    return bad("use at most 131072 positions and a head size of 32768");
  }
  if (!(shape.dropout >= 0 && shape.dropout < 1)) {
    return bad("dropout must lie in [0, 1)");
  }
  return absl::OkStatus();
}

absl::Status AttentionForwardArgs::Check() const {
  return CheckAttentionShape(shape);
}

absl::Status AttentionBackwardArgs::Check() const {
  return CheckAttentionShape(shape);
}

}  // namespace castor::kernels
