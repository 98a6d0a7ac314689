#include "kernels/gelu/gelu.h"

#include "kernels/check_size.h"

namespace castor::kernels {

absl::Status GeluForwardArgs::Check() const {
  return CheckSize("GeluForward", size);
}

absl::Status GeluBackwardArgs::Check() const {
  return CheckSize("GeluBackward", size);
}

}  // namespace castor::kernels
