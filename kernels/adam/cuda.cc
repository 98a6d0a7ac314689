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
  return cuda::WithGradient(dtype, gradient_sum,
                            gradient != nullptr ? gradient : payload,
                            [&]<class T, class G>(T, const G* from) {
                              return cuda::Update<G, T>(context, *this, from);
                            });
}

}  // namespace castor::kernels
