// Divides the GPU's workspace of the embedding's backward pass.
#ifndef CASTOR_KERNELS_EMBEDDING_GPU_SIZES_H_
#define CASTOR_KERNELS_EMBEDDING_GPU_SIZES_H_

#include <cstdint>

#include "base/units.h"

namespace castor::kernels::cuda {

// One of the two arrays of keys that positions are sorted in.
inline int64_t EmbeddingKeysBytes(int64_t rows) {
  return RoundUp(rows * 8, 256);
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_EMBEDDING_GPU_SIZES_H_
