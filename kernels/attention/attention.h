// Multi-head attention, fused: the T x S scores exist only for a few rows of
// one head at a time.
//
//   s = q k^T scale, or c tanh(q k^T scale / c) with a soft cap c, where the
//   mask admits it; p = softmax(s); o = dropout(p) v
//
// Sources: Dao et al., "FlashAttention", 2022 (recomputation of p in backward
// from the row's log-sum-exp); Ainslie et al., "GQA", 2023 (query heads that
// share a key and value head); Gemma Team, "Gemma 2", 2024, section 2 (soft
// cap). Here rows are tiled but keys are not: a tile's whole rows of s are
// formed, so the softmax is the plain one.
//
// A mask (mask.h) says which keys count. Only the tiles that contain such keys
// are computed: with a window of w keys the work grows with T w, forward and
// backward, and with documents of w tokens in each sample, too.
//
// The GPU's bits differ from the host's: its tiles and its exponential function
// are different, and in bf16 and fp16 it rounds p and the scores' gradients to
// the type before it multiplies them. There a single query without dropout
// processes its keys in ranges, which are joined in their order. A head has at
// most kMaxGpuHeadSize channels; a larger one is an InvalidArgument.
#ifndef CASTOR_KERNELS_ATTENTION_ATTENTION_H_
#define CASTOR_KERNELS_ATTENTION_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/document_range.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "device/device.h"
#include "kernels/attention/mask.h"

namespace castor::kernels {

// Shapes: B batch, T positions (queries), S keys, H query heads, K heads of
// keys and values, D head size, C = H D.
//   q [B, T, H, D], k and v [B, S, K, D], out [B, T, C]
// Query head h uses the keys and values of head h / (H / K). The distances of
// positions in q, k and v are free, so that they may be parts of one array:
// GPT-2's qkv [B, T, 3C] is q = qkv, k = qkv + C, v = qkv + 2 C, each with a
// stride of 3 C. A gradient has the layout of its operand.
struct AttentionShape {
  int64_t batch = 0;      // B
  int64_t positions = 0;  // T
  int64_t keys = 0;       // S; 0: T
  int64_t heads = 0;      // H
  int64_t kv_heads = 0;   // K; 0: H
  int64_t head_size = 0;  // D
  DType dtype = DType::kFloat32;
  AttentionMask mask = AttentionMask::Causal();
  float scale = 0;    // of q k^T; 0: 1 / sqrt(D)
  float softcap = 0;  // c; 0: none
  // Probability of dropping an element of p; kept ones are scaled by
  // 1 / (1 - dropout). Element ((b H + h) T + i) S + j of `key` decides for
  // p[b, h, i, j] as in kernels/dropout/dropout.h. 0: none.
  float dropout = 0;
  RandomKey key;
  // Elements from one position to the next: of q, and of k and v.
  int64_t q_stride = 0;   // 0: H D
  int64_t kv_stride = 0;  // 0: K D
  // Positions of k and v that a sample has room for, of which the first S
  // count. 0: S
  int64_t key_rows = 0;

  // Returns the shape with a value for each 0 that stands for one; a mask's
  // bound that excludes no key becomes unbounded.
  AttentionShape Filled() const;
  // For a filled shape: the number of query heads that share a head of keys,
  // and the mask over queries and keys.
  int64_t group() const { return kv_heads == 0 ? 0 : heads / kv_heads; }
  AttentionBand band() const { return {positions, keys, mask}; }
};

inline constexpr int64_t kMaxAttentionPositions = 131072;
inline constexpr int64_t kMaxAttentionHeadSize = 32768;
inline constexpr int64_t kMaxGpuHeadSize = 256;

// InvalidArgument: a negative size, no head size, heads that K does not divide,
// fewer keys than queries under a bounded mask, a scale or soft cap that is not
// positive and finite, a dropout outside of [0, 1), strides that let rows
// overlap, more positions or a larger head size than the kernels' scratch has
// room for. The kernels' Check calls this; callers may check before anything is
// computed.
absl::Status CheckAttentionShape(const AttentionShape& shape);
// Checks further limits of a GPU. InvalidArgument: a head is too large.
absl::Status CheckAttentionShapeOnGpu(const AttentionShape& shape);
// Checks that samples of this shape may have several documents.
// InvalidArgument: a mask that is neither causal nor All, or not as many keys,
// and room for keys, as queries.
absl::Status CheckAttentionOfDocuments(const AttentionShape& shape);

struct AttentionForwardArgs {
  AttentionShape shape;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  // [B, T]: queries see only the keys of their own document. Null: each sample
  // is one. The results are undefined if values are no documents.
  const DocumentRange* documents = nullptr;
  void* out = nullptr;   // [B, T, C]
  float* lse = nullptr;  // [B, H, T] log-sum-exp of s's rows, always fp32
  void* workspace = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
  // Depends only on the shape.
  int64_t CpuWorkspaceBytes() const;
  int64_t GpuWorkspaceBytes() const;
};

// Keys that no query sees get a gradient of 0; rows after the first S of each
// sample are not written.
struct AttentionBackwardArgs {
  AttentionShape shape;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const DocumentRange* documents = nullptr;  // as in the forward pass
  const void* out = nullptr;                 // [B, T, C]
  const float* lse = nullptr;                // [B, H, T]
  const void* dout = nullptr;                // [B, T, C]
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  void* workspace = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
  // Depends only on the shape. On a GPU, in 16 bits and with several tiles of
  // keys, it is mostly dq in fp32.
  int64_t CpuWorkspaceBytes() const;
  int64_t GpuWorkspaceBytes() const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ATTENTION_ATTENTION_H_
