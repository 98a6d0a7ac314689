// The error of a target that is no position of its document, on every device.
#ifndef CASTOR_KERNELS_POSITION_LOSS_BAD_POSITION_H_
#define CASTOR_KERNELS_POSITION_LOSS_BAD_POSITION_H_

#include <cstdint>

#include "absl/status/status.h"

namespace castor::kernels {

// Returns InvalidArgument. `tokens`: of the document; 0: the row is not its
// first one.
absl::Status BadPosition(int64_t target, int64_t row, int64_t tokens);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_POSITION_LOSS_BAD_POSITION_H_
