// The error of a target outside of the vocabulary, on every device.
#ifndef CASTOR_KERNELS_HEAD_LOSS_BAD_TARGET_H_
#define CASTOR_KERNELS_HEAD_LOSS_BAD_TARGET_H_

#include <cstdint>

#include "absl/status/status.h"

namespace castor::kernels {

// Returns InvalidArgument.
absl::Status BadTarget(int64_t target, int64_t row, int64_t vocabulary);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_HEAD_LOSS_BAD_TARGET_H_
