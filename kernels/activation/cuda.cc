#include "base/with_type.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/activation_program.h"
#include "kernels/cuda/launch_status.h"

namespace castor::kernels {

absl::Status ActivationForwardArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(dtype, [&]<class T>(T) {
    return cuda::Launch(
        context, "ActivationForward", cuda::ElementBlocks(size),
        cuda::ActivationForwardProgram<T>{.kind = kind,
                                          .size = size,
                                          .x = static_cast<const T*>(x),
                                          .up = static_cast<const T*>(up),
                                          .y = static_cast<T*>(y)});
  });
}

absl::Status ActivationBackwardArgs::RunOnGpu(
    const ExecContext& context) const {
  return WithType(dtype, [&]<class T>(T) {
    return cuda::Launch(
        context, "ActivationBackward", cuda::ElementBlocks(size),
        cuda::ActivationBackwardProgram<T>{.kind = kind,
                                           .size = size,
                                           .x = static_cast<const T*>(x),
                                           .up = static_cast<const T*>(up),
                                           .dy = static_cast<const T*>(dy),
                                           .dx = static_cast<T*>(dx),
                                           .dup = static_cast<T*>(dup)});
  });
}

}  // namespace castor::kernels
