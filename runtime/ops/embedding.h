// Token and position embeddings.
#ifndef CASTOR_RUNTIME_OPS_EMBEDDING_H_
#define CASTOR_RUNTIME_OPS_EMBEDDING_H_

#include "absl/status/statusor.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

// y [B, T, C] = table [V, C] at indices [B, T] (int32) + addend (same shape as
// y; may be empty). Moved in, an addend that nobody else holds gives its
// storage to the sum. InvalidArgument: a shape that is none of these.
absl::StatusOr<Tensor> Embedding(Engine& engine, const Tensor& indices,
                                 Parameter& table, Tensor addend);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_EMBEDDING_H_
