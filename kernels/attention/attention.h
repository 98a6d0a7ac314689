// Causal multi-head self-attention, fused: the T x T scores exist only for a
// few rows of one head at a time.
//
//   s = q k^T / sqrt(D), causal; p = softmax(s); o = dropout(p) v
//
// Source: Dao et al., "FlashAttention", 2022 (recomputation of p in backward
// from the row's log-sum-exp). Here rows are tiled but keys are not: a
// tile's whole rows of s are formed, so the softmax is the plain one.
//
// The GPU's bits are not the host's: its tiles and its exponential function are
// others, and in bf16 and fp16 it rounds p and the scores' gradients to the
// type before it multiplies them. A head has at most kMaxGpuHeadSize channels
// there; a larger one is an InvalidArgument.
#ifndef CASTOR_KERNELS_ATTENTION_ATTENTION_H_
#define CASTOR_KERNELS_ATTENTION_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "device/device.h"

namespace castor::kernels {

// Shapes: B batch, T positions, H heads, D head size, C = H * D.
// qkv [B, T, 3C]: for each position q, k, v one after the other, each H heads
// of D (as GPT-2's c_attn gives them).
struct AttentionShape {
  int64_t batch = 0;      // B
  int64_t positions = 0;  // T
  int64_t heads = 0;      // H
  int64_t head_size = 0;  // D
  DType dtype = DType::kFloat32;
  bool causal = true;
  // Probability of dropping an element of p; kept ones are scaled by
  // 1 / (1 - dropout). Element ((b H + h) T + i) T + j of `key` decides for
  // p[b, h, i, j] as in kernels/dropout/dropout.h. 0: none.
  float dropout = 0;
  RandomKey key;
};

inline constexpr int64_t kMaxAttentionPositions = 131072;
inline constexpr int64_t kMaxAttentionHeadSize = 32768;
inline constexpr int64_t kMaxGpuHeadSize = 128;

// InvalidArgument: a negative size, no head size, a dropout outside of [0, 1),
// more positions or a larger head size than the kernels' scratch has room for.
// The kernels' Check is this; who asks here knows before anything is computed.
absl::Status CheckAttentionShape(const AttentionShape& shape);

struct AttentionForwardArgs {
  AttentionShape shape;
  const void* qkv = nullptr;  // [B, T, 3C]
  void* out = nullptr;        // [B, T, C]
  float* lse = nullptr;       // [B, H, T] log-sum-exp of s's rows, always fp32
  void* workspace = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
  // The shape alone decides.
  int64_t CpuWorkspaceBytes() const;
  int64_t GpuWorkspaceBytes() const;
};

struct AttentionBackwardArgs {
  AttentionShape shape;
  const void* qkv = nullptr;   // [B, T, 3C]
  const void* out = nullptr;   // [B, T, C]
  const float* lse = nullptr;  // [B, H, T]
  const void* dout = nullptr;  // [B, T, C]
  void* dqkv = nullptr;        // [B, T, 3C]
  void* workspace = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
  // The shape alone decides.
  int64_t CpuWorkspaceBytes() const;
  int64_t GpuWorkspaceBytes() const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ATTENTION_ATTENTION_H_
