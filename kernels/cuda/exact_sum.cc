#include "kernels/exact_sum.h"

#include <cstddef>

#include "base/status_macros.h"
#include "base/with_type.h"
#include "kernels/checks.h"
#include "kernels/cuda/exact_sum_program.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/status.h"

namespace castor::kernels::cuda {
namespace {

static_assert(kExactLimbs == ExactSum::kLimbs && kSquaresTile == kNormTile);
static_assert(sizeof(ExactSum) == (kExactLimbs + 2) * sizeof(int64_t));
static_assert(offsetof(ExactSum, limbs) == 0);
static_assert(offsetof(ExactSum, invalid) == kExactLimbs * sizeof(int64_t));

template <class T>
absl::Status Run(const ExecContext& context, int64_t size, const void* x,
                 ExactSum* sum, int64_t label) {
  // Not sum->limbs: nothing behind a device pointer is touched here.
  int64_t* limbs = reinterpret_cast<int64_t*>(sum);
  return Launch(context, "AddSquares", AddSquaresProgram<T>::Blocks(size),
                AddSquaresProgram<T>{.size = size,
                                     .x = static_cast<const T*>(x),
                                     .limbs = limbs,
                                     .invalid = limbs + kExactLimbs,
                                     .invalid_label = limbs + kExactLimbs + 1,
                                     .label = label});
}

}  // namespace

absl::Status AddSquares(const ExecContext& context, int64_t size, DType dtype,
                        const void* x, ExactSum* sum, int64_t label) {
  CASTOR_RETURN_IF_ERROR(CheckSize("AddSquares", size));
  return WithType(
      dtype, [&]<class T>(T) { return Run<T>(context, size, x, sum, label); });
}

}  // namespace castor::kernels::cuda
