#include "base/with_type.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/gradient_sum/gradient_sum.h"
#include "kernels/gradient_sum/gradient_sum_program.h"

namespace castor::kernels {
namespace cuda {
namespace {

template <class T>
absl::Status Accumulate(const ExecContext& context,
                        const AccumulateGradientArgs& args) {
  return Launch(context, "AccumulateGradient", ElementBlocks(args.size),
                AccumulateProgram<T>{.size = args.size,
                                     .payload = static_cast<T*>(args.payload),
                                     .sum = args.sum,
                                     .master = args.master,
                                     .assign = args.assign,
                                     .restore = args.restore});
}

}  // namespace
}  // namespace cuda

absl::Status AccumulateGradientArgs::RunOnGpu(
    const ExecContext& context) const {
  return WithType(
      dtype, [&]<class T>(T) { return cuda::Accumulate<T>(context, *this); });
}

}  // namespace castor::kernels
