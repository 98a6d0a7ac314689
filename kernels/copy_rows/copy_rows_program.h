// Copies rows as uninterpreted words.
#ifndef CASTOR_KERNELS_COPY_ROWS_COPY_ROWS_PROGRAM_H_
#define CASTOR_KERNELS_COPY_ROWS_COPY_ROWS_PROGRAM_H_

#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/cuda/elements.h"

namespace castor::kernels::cuda {

// A thread copies every kElementThreads-th of its block's kElementsPerBlock
// elements, so that a warp moves neighbours. Word is as wide as an element.
template <class Word>
struct CopyRowsProgram {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;

  int64_t rows, columns, x_stride, y_stride;
  const Word* x;
  Word* y;

  template <class Block>
  CASTOR_HD void operator()(Block& block, Shared&) const {
    block.EachUnsynced([&](int t) {
      const int64_t first = block.index() * kElementsPerBlock + t;
      for (int i = 0; i < kElementsPerThread; ++i) {
        const int64_t element = first + int64_t{i} * kElementThreads;
        if (element >= rows * columns) return;
        const int64_t r = element / columns;
        const int64_t c = element - r * columns;
        y[r * y_stride + c] = x[r * x_stride + c];
      }
    });
  }
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_COPY_ROWS_COPY_ROWS_PROGRAM_H_
