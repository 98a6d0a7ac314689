#include "kernels/embedding/gpu_sizes.h"

#include "kernels/embedding/embedding.h"

namespace castor::kernels {

int64_t EmbeddingBackwardArgs::GpuWorkspaceBytes() const {
  return 2 * cuda::EmbeddingKeysBytes(rows);
}

}  // namespace castor::kernels
