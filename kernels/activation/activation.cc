#include "kernels/activation/activation.h"

#include "kernels/check_size.h"

namespace castor::kernels {

absl::Status ActivationForwardArgs::Check() const {
  return CheckSize("ActivationForward", size);
}

absl::Status ActivationBackwardArgs::Check() const {
  if ((up == nullptr) != (dup == nullptr)) {
    return absl::InvalidArgumentError(
        "ActivationBackward: give both up and dup, or none of them");
  }
  return CheckSize("ActivationBackward", size);
}

}  // namespace castor::kernels
