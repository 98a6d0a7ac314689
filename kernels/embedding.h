// Table look-up and its gradient.
#ifndef CASTOR_KERNELS_EMBEDDING_H_
#define CASTOR_KERNELS_EMBEDDING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// y [N, C] (+)= table[indices[n]] for table [V, C], indices [N] int32. An index
// outside [0, V) is an InvalidArgument of the stream.
// accumulate: y += row (GPT-2's sum of token and position embeddings).
absl::Status EmbeddingForward(const ExecContext& context, DType dtype,
                              int64_t rows, int64_t channels,
                              int64_t vocabulary, const int32_t* indices,
                              const void* table, void* y, bool accumulate);

// dtable [V, C] (+)= sum over n of dy[n] at row indices[n]. Rows of equal index
// are added in the order of n, in fp32, and rounded once together with
// what is there. Without accumulate, rows that no index names become 0.
absl::Status EmbeddingBackward(const ExecContext& context, DType dtype,
                               int64_t rows, int64_t channels,
                               int64_t vocabulary, const int32_t* indices,
                               const void* dy, void* dtable, bool accumulate);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_EMBEDDING_H_
