// Token and position embeddings.
#ifndef CASTOR_RUNTIME_OPS_EMBEDDING_H_
#define CASTOR_RUNTIME_OPS_EMBEDDING_H_

#include "absl/status/statusor.h"
#include "runtime/engine.h"

namespace castor::ops {

// y [B, T, C] = table [V, C] at indices [B, T] (int32) + addend (same shape as
// y; may be empty). The sum is formed in the addend's storage: InvalidArgument
// if anybody else holds it.
absl::StatusOr<Tensor> Embedding(Engine& engine, const Tensor& indices,
                                 Parameter& table, Tensor addend);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_EMBEDDING_H_
