#include "base/with_type.h"
#include "kernels/adam/adam_math.h"
#include "kernels/cuda/launch_ranges.h"
#include "kernels/packed_adam/packed_adam.h"
#include "kernels/packed_adam/packed_adam_program.h"

namespace castor::kernels {
namespace cuda {
namespace {

template <bool kEightBits, class G, class T>
absl::Status Update(const ExecContext& context, const PackedAdamArgs& args,
                    const G* gradient) {
  using Program = PackedAdamProgram<G, T, kEightBits>;
  Program program = {};
  program.gradient = gradient;
  program.payload = static_cast<T*>(args.payload);
  program.master = args.master;
  program.m = args.m;
  program.v = args.v;
  program.elements = args.elements;
  program.grad_scale = args.grad_scale;
  return LaunchRanges(context, "PackedAdamUpdate", program, Program::kBlock,
                      args.ranges, args.num_ranges,
                      [](const PackedAdamRange& range) {
                        return PackedAdamScalars{MakeAdamScalars(range.hyper),
                                                 range.key, range.first};
                      });
}

template <bool kEightBits>
absl::Status UpdateAny(const ExecContext& context, const PackedAdamArgs& args) {
  return WithType(args.dtype, [&]<class T>(T) {
    if (args.gradient_sum != nullptr) {
      return Update<kEightBits, float, T>(context, args, args.gradient_sum);
    }
    return Update<kEightBits, T, T>(
        context, args,
        static_cast<const T*>(args.gradient != nullptr ? args.gradient
                                                       : args.payload));
  });
}

}  // namespace
}  // namespace cuda

absl::Status PackedAdamArgs::RunOnGpu(const ExecContext& context) const {
  if (from.master != nullptr) {
    return absl::InvalidArgumentError(
        "PackedAdamUpdate: out of place it runs on the host alone");
  }
  return moment_bits == 8 ? cuda::UpdateAny<true>(context, *this)
                          : cuda::UpdateAny<false>(context, *this);
}

}  // namespace castor::kernels
