// The addition for the ranks' exchange of gradients
// (device/comm/device_parts.h).
#ifndef CASTOR_KERNELS_GRADIENT_SUM_ADD_TO_SUM_H_
#define CASTOR_KERNELS_GRADIENT_SUM_ADD_TO_SUM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// sum [size] (+)= gradient, of type dtype, which is only read. `assign`: sum is
// set, not added to.
absl::Status AddToSum(const ExecContext& context, DType dtype, int64_t size,
                      const void* gradient, float* sum, bool assign);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_GRADIENT_SUM_ADD_TO_SUM_H_
