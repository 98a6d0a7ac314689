// Table look-up and its gradient, with the same bits on every device.
#ifndef CASTOR_KERNELS_EMBEDDING_EMBEDDING_H_
#define CASTOR_KERNELS_EMBEDDING_EMBEDDING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"
#include "device/gpu_context.h"

namespace castor::kernels {

// y [N, C] (+)= table[indices[n]] for table [V, C], indices [N]. An index
// outside of [0, V) is an InvalidArgument of the stream.
struct EmbeddingForwardArgs {
  DType dtype = DType::kFloat32;
  int64_t rows = 0;        // N
  int64_t channels = 0;    // C
  int64_t vocabulary = 0;  // V
  const int32_t* indices = nullptr;
  const void* table = nullptr;
  void* y = nullptr;
  // Adds the rows to y (GPT-2's sum of token and position embeddings).
  bool accumulate = false;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
  static absl::Status DescribeFault(const GpuFault& fault);
};

// dtable [V, C] (+)= for each row the sum of dy[n] over those n whose index it
// is, for dy [N, C], indices [N]. Rows of equal index are added in the order of
// n, in fp32, and rounded once together with the present value. An index
// outside of [0, V) is an InvalidArgument of the stream.
struct EmbeddingBackwardArgs {
  DType dtype = DType::kFloat32;
  int64_t rows = 0;        // N
  int64_t channels = 0;    // C
  int64_t vocabulary = 0;  // V
  const int32_t* indices = nullptr;
  const void* dy = nullptr;
  void* dtable = nullptr;
  // Adds the sums to dtable; otherwise rows that no index names become 0.
  bool accumulate = false;
  // Scratch in which the GPU sorts positions by index.
  void* workspace = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
  // Depends only on the number of rows.
  int64_t CpuWorkspaceBytes() const;
  int64_t GpuWorkspaceBytes() const;
  static absl::Status DescribeFault(const GpuFault& fault);
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_EMBEDDING_EMBEDDING_H_
