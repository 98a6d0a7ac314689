#include "kernels/bias_gradient/bias_gradient.h"

#include <algorithm>

#include "kernels/check_size.h"

namespace castor::kernels {

absl::Status BiasGradientArgs::Check() const {
  return CheckSize("BiasGradient", std::min(rows, channels));
}

}  // namespace castor::kernels
