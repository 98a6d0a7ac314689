// The product of depth 0: fills rows.
#ifndef CASTOR_KERNELS_MATMUL_MATMUL_PROGRAM_H_
#define CASTOR_KERNELS_MATMUL_MATMUL_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

// y [M, N] (+)= row [N], or 0 where row is null.
template <class T>
struct FillRowsProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t rows, columns, stride;
  const T* row;
  T* y;
  bool accumulate;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    ForEachElement(block, rows * columns, [&](int64_t e) {
      T* to = y + e / columns * stride + e % columns;
      const float v = row != nullptr ? Load(row + e % columns) : 0.0f;
      Store(accumulate ? Add(Load(to), v) : v, to);
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_MATMUL_MATMUL_PROGRAM_H_
