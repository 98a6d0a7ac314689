// Dropout with a probability of 0, on every device.
#ifndef CASTOR_KERNELS_DROPOUT_WITHOUT_DROPOUT_H_
#define CASTOR_KERNELS_DROPOUT_WITHOUT_DROPOUT_H_

#include "absl/status/status.h"
#include "kernels/add/add.h"
#include "kernels/cast/cast.h"
#include "kernels/dropout/dropout.h"

namespace castor::kernels {

// Runs `dropout`, whose probability is 0, as a copy or as a sum: by
// `run(CastArgs)` or `run(AddArgs)`.
template <class Run>
absl::Status WithoutDropout(const DropoutArgs& dropout, const Run& run) {
  if (dropout.residual == nullptr) {
    return run(CastArgs{.size = dropout.size,
                        .from = dropout.dtype,
                        .x = dropout.x,
                        .to = dropout.dtype,
                        .y = dropout.y});
  }
  return run(AddArgs{.dtype = dropout.dtype,
                     .size = dropout.size,
                     .a = dropout.x,
                     .b = dropout.residual,
                     .y = dropout.y});
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_DROPOUT_WITHOUT_DROPOUT_H_
