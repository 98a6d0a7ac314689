#include "base/with_type.h"
#include "kernels/cuda/launch_ranges.h"
#include "kernels/lamb/lamb.h"
#include "kernels/lamb/lamb_math.h"
#include "kernels/lamb/lamb_program.h"

namespace castor::kernels {

static_assert(cuda::kLambRows == kLambSums && kLambParameter == 0 &&
              kLambUpdate == 1);

absl::Status LambMeasureArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::WithGradient(
      dtype, gradient_sum, payload, [&]<class T, class G>(T, const G* from) {
        cuda::LambMeasureProgram<G> program = {};
        program.gradient = from;
        program.master = master;
        program.m = m;
        program.v = v;
        program.grad_scale = grad_scale;
        program.sums = reinterpret_cast<int64_t*>(sums);
        return cuda::LaunchRanges(context, "LambMeasure", program,
                                  cuda::TileSquares::kBlock, ranges, num_ranges,
                                  MakeLambScalars);
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
