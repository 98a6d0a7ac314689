#include "kernels/attention/gpu_sizes.h"

#include "base/with_type.h"

namespace castor::kernels {

// AttentionRanges.
int64_t AttentionForwardArgs::GpuWorkspaceBytes() const {
  const AttentionShape filled = shape.Filled();
  if (!cuda::AttentionInRanges(filled)) return 0;
  return filled.batch * filled.heads * filled.positions *
         CeilDiv(filled.key_rows, cuda::kRangeKeys) * (filled.head_size + 2) *
         static_cast<int64_t>(sizeof(float));
}

int64_t AttentionBackwardArgs::GpuWorkspaceBytes() const {
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::WithAttentionProgram(shape, [&](auto size, auto drops) {
      using Program = cuda::AttentionBackwardOf<T, size, drops>;
      return cuda::AttentionWorkspace::Of<Program>(shape.Filled()).bytes();
    });
  });
}

}  // namespace castor::kernels
