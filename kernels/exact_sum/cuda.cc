#include <cstddef>

#include "base/with_type.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/exact_sum/exact_sum.h"
#include "kernels/exact_sum/exact_sum_program.h"

namespace castor::kernels {
namespace cuda {
namespace {

static_assert(kExactLimbs == ExactSum::kLimbs && kSquaresTile == kNormTile);
static_assert(sizeof(ExactSum) == (kExactLimbs + 2) * sizeof(int64_t));
static_assert(offsetof(ExactSum, limbs) == 0);
static_assert(offsetof(ExactSum, invalid) == kExactLimbs * sizeof(int64_t));

template <class T>
absl::Status AddSquares(const ExecContext& context,
                        const AddSquaresArgs& args) {
  // It is not sum->limbs, since nothing behind a device pointer is touched
  // here.
  int64_t* limbs = reinterpret_cast<int64_t*>(args.sum);
  return Launch(context, "AddSquares", AddSquaresProgram<T>::Blocks(args.size),
                AddSquaresProgram<T>{.size = args.size,
                                     .x = static_cast<const T*>(args.x),
                                     .limbs = limbs,
                                     .invalid = limbs + kExactLimbs,
                                     .invalid_label = limbs + kExactLimbs + 1,
                                     .label = args.label});
}

}  // namespace
}  // namespace cuda

absl::Status AddSquaresArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(
      dtype, [&]<class T>(T) { return cuda::AddSquares<T>(context, *this); });
}

}  // namespace castor::kernels
