// Causal multi-head self-attention.
#ifndef CASTOR_RUNTIME_OPS_ATTENTION_H_
#define CASTOR_RUNTIME_OPS_ATTENTION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

// y [B, T, C] from qkv [B, T, 3C] with `heads` heads; dropout on the
// probabilities, keyed by `site`. InvalidArgument: qkv is of another shape, or
// larger than the kernels take (kernels/attention/attention.h).
absl::StatusOr<Tensor> CausalAttention(Engine& engine, const Tensor& qkv,
                                       int64_t heads, float dropout,
                                       absl::string_view site);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_ATTENTION_H_
