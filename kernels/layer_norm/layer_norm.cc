#include "kernels/layer_norm/layer_norm.h"

#include "kernels/check_size.h"

namespace castor::kernels {

absl::Status LayerNormForwardArgs::Check() const {
  return CheckRows("LayerNormForward", shape.rows, shape.channels);
}

absl::Status LayerNormBackwardInputArgs::Check() const {
  return CheckRows("LayerNormBackwardInput", shape.rows, shape.channels);
}

absl::Status LayerNormBackwardParametersArgs::Check() const {
  return CheckRows("LayerNormBackwardParameters", shape.rows, shape.channels);
}

}  // namespace castor::kernels
