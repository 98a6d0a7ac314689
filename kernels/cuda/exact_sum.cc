#include "kernels/exact_sum.h"

#include <cstddef>

#include "base/status_macros.h"
#include "kernels/checks.h"
#include "kernels/cuda/exact_sum_program.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/status.h"

namespace castor::kernels::cuda {
namespace {

static_assert(kExactLimbs == ExactSum::kLimbs && kSquaresTile == kNormTile);
static_assert(sizeof(ExactSum) == (kExactLimbs + 1) * sizeof(int64_t));
static_assert(offsetof(ExactSum, limbs) == 0);

template <class T>
absl::Status Run(const ExecContext& context, int64_t size, const void* x,
                 ExactSum* sum) {
  // Not sum->limbs: nothing behind a device pointer is touched here.
  int64_t* limbs = reinterpret_cast<int64_t*>(sum);
  return Launch(context, "AddSquares", AddSquaresProgram<T>::Blocks(size),
                AddSquaresProgram<T>{.size = size,
                                     .x = static_cast<const T*>(x),
                                     .limbs = limbs,
                                     .invalid = limbs + kExactLimbs});
}

}  // namespace

absl::Status AddSquares(const ExecContext& context, int64_t size, DType dtype,
                        const void* x, ExactSum* sum) {
  CASTOR_RETURN_IF_ERROR(CheckSize("AddSquares", size));
  return dtype == DType::kFloat32 ? Run<float>(context, size, x, sum)
                                  : Run<BFloat16>(context, size, x, sum);
}

}  // namespace castor::kernels::cuda
