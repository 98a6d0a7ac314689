#include "base/with_type.h"
#include "kernels/adam/adam.h"
#include "kernels/adam/adam_math.h"
#include "kernels/adam/adam_program.h"
#include "kernels/cuda/launch_ranges.h"

namespace castor::kernels {
namespace cuda {
namespace {

template <class G, class T>
absl::Status Update(const ExecContext& context, const AdamArgs& args,
                    const G* gradient) {
  AdamProgram<G, T> program = {};
  program.gradient = gradient;
  program.payload = static_cast<T*>(args.payload);
  program.master = args.master;
  program.m = args.m;
  program.v = args.v;
  program.grad_scale = args.grad_scale;
  return LaunchRanges(context, "AdamUpdate", program, kElementsPerBlock,
                      args.ranges, args.num_ranges, [](const AdamRange& range) {
                        return MakeAdamScalars(range.hyper);
                      });
}

}  // namespace
}  // namespace cuda

absl::Status AdamArgs::RunOnGpu(const ExecContext& context) const {
  if (from.master != nullptr) {
    return absl::InvalidArgumentError(
        "AdamUpdate: out of place it runs on the host alone");
  }
  return WithType(dtype, [&]<class T>(T) {
    return gradient_sum != nullptr
               ? cuda::Update<float, T>(context, *this, gradient_sum)
               : cuda::Update<T, T>(
                     context, *this,
                     static_cast<const T*>(gradient != nullptr ? gradient
                                                               : payload));
  });
}

}  // namespace castor::kernels
