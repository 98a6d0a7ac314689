#include "base/with_type.h"
#include "kernels/cuda/launch_ranges.h"
#include "kernels/lamb/lamb.h"
#include "kernels/lamb/lamb_math.h"
#include "kernels/lamb/lamb_program.h"

namespace castor::kernels {
namespace cuda {
namespace {

static_assert(kLambRows == kLambSums && kLambParameter == 0 &&
              kLambUpdate == 1);

template <class G>
absl::Status Measure(const ExecContext& context, const LambMeasureArgs& args,
                     const G* gradient) {
  LambMeasureProgram<G> program = {};
  program.gradient = gradient;
  program.master = args.master;
  program.m = args.m;
  program.v = args.v;
  program.grad_scale = args.grad_scale;
  program.sums = reinterpret_cast<int64_t*>(args.sums);
  return LaunchRanges(context, "LambMeasure", program, TileSquares::kBlock,
                      args.ranges, args.num_ranges, MakeLambScalars);
}

}  // namespace
}  // namespace cuda

absl::Status LambMeasureArgs::RunOnGpu(const ExecContext& context) const {
  if (gradient_sum != nullptr) {
    return cuda::Measure(context, *this, gradient_sum);
  }
  return WithType(dtype, [&]<class T>(T) {
    return cuda::Measure(context, *this, static_cast<const T*>(payload));
  });
}

absl::Status LambApplyArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(dtype, [&]<class T>(T) {
    cuda::LambApplyProgram<T> program = {};
    program.payload = static_cast<T*>(payload);
    program.master = master;
    program.m = m;
    program.v = v;
    program.grad_scale = grad_scale;
    program.sums = sums;
    return cuda::LaunchRanges(context, "LambApply", program,
                              cuda::kElementsPerBlock, ranges, num_ranges,
                              MakeLambScalars);
  });
}

}  // namespace castor::kernels
