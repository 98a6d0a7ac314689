// A bias's gradient, with the bits of the host's (cpu.cc).
#ifndef CASTOR_KERNELS_BIAS_GRADIENT_BIAS_GRADIENT_PROGRAM_H_
#define CASTOR_KERNELS_BIAS_GRADIENT_BIAS_GRADIENT_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/column_sums.h"

namespace castor::kernels::cuda {

// db [columns] (+)= the sum of dy's rows.
template <class T>
struct BiasGradientProgram {
  using Sums = ColumnSums<T, 1, 0, 1>;
  static constexpr int kThreads = Sums::kThreads;
  using Shared = typename Sums::Shared;

  Sums sums;  // of dy
  T* db;
  bool accumulate;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared& shared) const {
    sums.Run(
        block, shared,
        [](const float* x, const float*, float* sum) {
          sum[0] = Add(sum[0], x[0]);
        },
        [&](int64_t c, const float* total) {
          PutTotal(total[0], db + c, accumulate);
        });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_BIAS_GRADIENT_BIAS_GRADIENT_PROGRAM_H_
