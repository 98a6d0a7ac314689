#include "kernels/rms_norm/rms_norm.h"

#include "kernels/check_size.h"

namespace castor::kernels {

absl::Status RmsNormForwardArgs::Check() const {
  return CheckRows("RmsNormForward", shape.rows, shape.channels);
}

absl::Status RmsNormBackwardInputArgs::Check() const {
  return CheckRows("RmsNormBackwardInput", shape.rows, shape.channels);
}

absl::Status RmsNormBackwardParametersArgs::Check() const {
  return CheckRows("RmsNormBackwardParameters", shape.rows, shape.channels);
}

}  // namespace castor::kernels
