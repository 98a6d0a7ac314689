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

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_ELEMENTS_H_
