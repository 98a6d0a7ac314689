#include <cstddef>

#include "base/with_type.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/exact_sum/exact_sum.h"
#include "kernels/exact_sum/exact_sum_program.h"

namespace castor::kernels {
namespace cuda {
namespace {

static_assert(kSquaresTile == kNormTile);
static_assert(sizeof(ExactSum) == ExactSumWords::kWords * sizeof(int64_t));
static_assert(offsetof(ExactSum, limbs) == 0);
static_assert(offsetof(ExactSum, invalid) == kExactLimbs * sizeof(int64_t));

template <class T>
absl::Status AddSquares(const ExecContext& context,
                        const AddSquaresArgs& args) {
  // It is not sum->limbs, since nothing behind a device pointer is touched
  // here.
  return Launch(
      context, "AddSquares", TileSquares::Blocks(args.size),
      AddSquaresProgram<T>{.size = args.size,
                           .x = static_cast<const T*>(args.x),
                           .sum = {reinterpret_cast<int64_t*>(args.sum)},
                           .label = args.label});
}

}  // namespace
}  // namespace cuda

absl::Status AddSquaresArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(
      dtype, [&]<class T>(T) { return cuda::AddSquares<T>(context, *this); });
}

absl::Status ExactSumValuesArgs::RunOnGpu(const ExecContext& context) const {
  constexpr int64_t kThreads = cuda::ExactSumValuesProgram::kThreads;
  return cuda::Launch(context, "ExactSumValues",
                      (count + kThreads - 1) / kThreads,
                      cuda::ExactSumValuesProgram{
                          .count = count,
                          .sums = reinterpret_cast<const int64_t*>(sums),
                          .values = values});
}

}  // namespace castor::kernels
