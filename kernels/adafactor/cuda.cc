#include "kernels/adafactor/adafactor.h"
#include "kernels/adafactor/adafactor_math.h"
#include "kernels/adafactor/adafactor_program.h"
#include "kernels/cuda/launch_ranges.h"

namespace castor::kernels {
namespace {

static_assert(cuda::kSumsOfAParameter == kAdafactorSums &&
              kAdafactorParameter == 0 && kAdafactorUpdate == 1);

}  // namespace

absl::Status AdafactorMarginsArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::WithGradient(
      dtype, gradient_sum, payload, [&]<class T, class G>(T, const G* from) {
        cuda::AdafactorMarginsProgram<G> program = {};
        program.gradient = from;
        program.grad_scale = grad_scale;
        program.sums = reinterpret_cast<int64_t*>(sums);
        return cuda::LaunchRanges(context, "AdafactorMargins", program,
                                  program.kBlock, ranges, num_ranges,
                                  MakeAdafactorScalars);
      });
}

absl::Status AdafactorMeasureArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::WithGradient(
      dtype, gradient_sum, payload, [&]<class T, class G>(T, const G* from) {
        cuda::AdafactorMeasureProgram<G> program = {};
        program.gradient = from;
        program.master = master;
        program.factors = factors;
        program.grad_scale = grad_scale;
        program.sums = reinterpret_cast<int64_t*>(sums);
        return cuda::LaunchRanges(context, "AdafactorMeasure", program,
                                  cuda::TileSquares::kBlock, ranges, num_ranges,
                                  MakeAdafactorScalars);
      });
}

absl::Status AdafactorApplyArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::WithGradient(
      dtype, gradient_sum, payload, [&]<class T, class G>(T, const G* from) {
        cuda::AdafactorApplyProgram<T, G> program = {};
        program.payload = static_cast<T*>(payload);
        program.gradient = from;
        program.master = master;
        program.m = m;
        program.factors = factors;
        program.grad_scale = grad_scale;
        program.sums = sums;
        return cuda::LaunchRanges(context, "AdafactorApply", program,
                                  cuda::kElementsPerBlock, ranges, num_ranges,
                                  MakeAdafactorScalars);
      });
}

}  // namespace castor::kernels
