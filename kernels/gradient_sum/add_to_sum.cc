#include "kernels/gradient_sum/add_to_sum.h"

#include "kernels/gradient_sum/gradient_sum.h"
#include "kernels/run.h"

namespace castor::kernels {

absl::Status AddToSum(const ExecContext& context, DType dtype, int64_t size,
                      const void* gradient, float* sum, bool assign) {
  // Without `restore` the kernel does not write where the gradient lies.
  return Run(context,
             AccumulateGradientArgs{.size = size,
                                    .dtype = dtype,
                                    .payload = const_cast<void*>(gradient),
                                    .sum = sum,
                                    .assign = assign});
}

}  // namespace castor::kernels
