// Multi-head attention: causal or not, windowed, with heads of keys and values
// that several query heads share.
#ifndef CASTOR_RUNTIME_OPS_ATTENTION_H_
#define CASTOR_RUNTIME_OPS_ATTENTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

// Letters: B batch, T queries, S keys, H query heads, K heads of keys and
// values, D head size.
struct AttentionOptions {
  int64_t heads = 1;     // H
  int64_t kv_heads = 0;  // K, a divisor of H; 0: H
  // Query i stands at key S - T + i and sees the keys up to its own place; with
  // a window only the last `window` of them (`sliding_window` of transformers;
  // 0: all). Not causal: each query sees all keys, and there is no window.
  bool causal = true;
  int64_t window = 0;
  double scale = 0;  // of q k^T; 0: 1 / sqrt(D)
  double softcap =
      0;              // c: scores s become c tanh(s / c), masked after; 0: none
  float dropout = 0;  // of the probabilities, in training
  // How many positions of k and v count, the first ones: S, where these have
  // room for more. 0: all. Where gradients are wanted, all must count.
  int64_t keys = 0;
};

// Where documents share the rows of a micro batch (Engine::documents), a query
// sees only its own one's keys.
//
// y [B, T, H D] from q [B, T, H D], k and v [B, S, K D]; dropout is keyed by
// `site`. InvalidArgument, when the operator is met for the first time (the dry
// pass): shapes or options that do not fit together, or sizes that the kernels
// of the device do not take (kernels/attention/attention.h).
absl::StatusOr<Tensor> Attention(Engine& engine, const Tensor& q,
                                 const Tensor& k, const Tensor& v,
                                 const AttentionOptions& options,
                                 absl::string_view site);

// The same for q, k and v side by side in qkv [B, T, 3C], as GPT-2 has them: y
// [B, T, C] with `heads` heads, causal.
absl::StatusOr<Tensor> CausalAttention(Engine& engine, const Tensor& qkv,
                                       int64_t heads, float dropout,
                                       absl::string_view site);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_ATTENTION_H_
