// How programs that normalise rows cut them into blocks and threads: a warp has
// a row, lane i of it the elements i, i + 32, ...
#ifndef CASTOR_KERNELS_CUDA_NORM_ROWS_H_
#define CASTOR_KERNELS_CUDA_NORM_ROWS_H_

#include <cstdint>

#include "kernels/cuda/block.h"

namespace castor::kernels::cuda {

// The number of rows that a block has.
inline constexpr int kNormRows = 8;
inline constexpr int kNormThreads = kNormRows * kWarp;

CASTOR_HD int64_t NormBlocks(int64_t rows) {
  return (rows + kNormRows - 1) / kNormRows;
}

// The row of thread t, which may be behind the last.
template <class Block>
CASTOR_HD int64_t NormRow(const Block& block, int t) {
  return block.index() * kNormRows + t / kWarp;
}

// Calls f(n, c) for the elements that thread t has of its row n.
template <class Block, class F>
CASTOR_HD void ForRowsElements(const Block& block, int t, int64_t rows,
                               int64_t channels, const F& f) {
  const int64_t n = NormRow(block, t);
  if (n >= rows) return;
  for (int64_t c = t % kWarp; c < channels; c += kWarp) f(n, c);
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_NORM_ROWS_H_
