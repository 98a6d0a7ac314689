#include "kernels/layer_norm/layer_norm.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace castor::kernels {
namespace {

absl::Status CheckShape(absl::string_view what, const LayerNormShape& shape) {
  if (shape.rows >= 0 && shape.channels >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": shape is [", shape.rows, ", ", shape.channels,
                   "]; give at least 0 rows and at least 1 channel"));
}

}  // namespace

absl::Status LayerNormForwardArgs::Check() const {
  return CheckShape("LayerNormForward", shape);
}

absl::Status LayerNormBackwardInputArgs::Check() const {
  return CheckShape("LayerNormBackwardInput", shape);
}

absl::Status LayerNormBackwardParametersArgs::Check() const {
  return CheckShape("LayerNormBackwardParameters", shape);
}

}  // namespace castor::kernels
