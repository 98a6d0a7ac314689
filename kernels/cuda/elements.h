// How elementwise programs cut their work into blocks.
#ifndef CASTOR_KERNELS_CUDA_ELEMENTS_H_
#define CASTOR_KERNELS_CUDA_ELEMENTS_H_

#include <cstdint>

#include "kernels/cuda/portable.h"

namespace castor::kernels::cuda {

// Threads of an elementwise block, and the elements of each.
inline constexpr int kElementThreads = 256;
inline constexpr int kElementsPerThread = 4;
inline constexpr int64_t kElementsPerBlock =
    int64_t{kElementThreads} * kElementsPerThread;

// Blocks of an elementwise program.
CASTOR_HD int64_t ElementBlocks(int64_t size) {
  return (size + kElementsPerBlock - 1) / kElementsPerBlock;
}

// Calls f(e) for those of the block's elements first, first + 1, ... that are
// below `end`. Neighbouring threads take neighbouring elements.
template <class Block, class F>
CASTOR_HD void ForEachElement(Block& block, int64_t first, int64_t end, F f) {
  block.Each([&](int t) {
    CASTOR_UNROLL
    for (int j = 0; j < kElementsPerThread; ++j) {
      const int64_t e = first + j * kElementThreads + t;
      if (e < end) f(e);
    }
  });
}

// The same for a program whose elements are 0 to size.
template <class Block, class F>
CASTOR_HD void ForEachElement(Block& block, int64_t size, F f) {
  ForEachElement(block, block.index() * kElementsPerBlock, size, f);
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_ELEMENTS_H_
