// Launches of the programs of elementwise_program.h.
#ifndef CASTOR_KERNELS_CUDA_LAUNCH_ELEMENTWISE_H_
#define CASTOR_KERNELS_CUDA_LAUNCH_ELEMENTWISE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/with_type.h"
#include "device/device.h"
#include "kernels/cuda/elementwise_program.h"
#include "kernels/cuda/launch_status.h"

namespace castor::kernels::cuda {

// Queues y [size] = op(x).
template <class Op, class TX, class TY>
absl::Status LaunchUnary(const ExecContext& context, const char* kernel,
                         int64_t size, const void* x, void* y) {
  return Launch(context, kernel, ElementBlocks(size),
                UnaryProgram<Op, TX, TY>{.size = size,
                                         .x = static_cast<const TX*>(x),
                                         .y = static_cast<TY*>(y)});
}

// Queues y [size] = op(a, b), all of one type.
template <class Op>
absl::Status LaunchBinary(const ExecContext& context, const char* kernel,
                          DType dtype, int64_t size, const void* a,
                          const void* b, void* y) {
  return WithType(dtype, [&]<class T>(T) {
    return Launch(context, kernel, ElementBlocks(size),
                  BinaryProgram<Op, T>{.size = size,
                                       .a = static_cast<const T*>(a),
                                       .b = static_cast<const T*>(b),
                                       .y = static_cast<T*>(y)});
  });
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_LAUNCH_ELEMENTWISE_H_
