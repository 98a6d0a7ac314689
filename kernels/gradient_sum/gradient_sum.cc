#include "kernels/gradient_sum/gradient_sum.h"

#include "kernels/check_size.h"

namespace castor::kernels {

absl::Status AccumulateGradientArgs::Check() const {
  return CheckSize("AccumulateGradient", size);
}

}  // namespace castor::kernels
