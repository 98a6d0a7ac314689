// The output head and its softmax cross-entropy, fused over tiles of the
// vocabulary: full logits never exist, neither forward nor backward.
//
//   logits = x w^T (+ b); loss = -sum_n log softmax(logits)[n, target[n]]
//
// Backward computes each tile of logits again (one product more than with kept
// logits, but N * V elements less of memory). A tile's rows of w are not needed
// after it, so the gradient dw may take over w's place (dw == w).
//
// The gradients of a tile of logits are rounded to the operands' type before
// they are multiplied, since matrix units take no mixed operands.
//
// The GPU's bits differ from the host's: there the loss is summed in double in
// a tree that depends only on the number of rows.
#ifndef CASTOR_KERNELS_HEAD_LOSS_HEAD_LOSS_H_
#define CASTOR_KERNELS_HEAD_LOSS_HEAD_LOSS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"
#include "device/gpu_context.h"

namespace castor::kernels {

struct HeadLossShape {
  int64_t rows = 0;        // N, tokens
  int64_t channels = 0;    // C
  int64_t vocabulary = 0;  // V
  DType dtype = DType::kFloat32;
};

// A row whose target is kIgnoredTarget (ignored_target.h) takes no part; any
// other target outside [0, V) is an InvalidArgument of the stream.
struct HeadLossForwardArgs {
  HeadLossShape shape;
  const void* x = nullptr;           // [N, C]
  const void* w = nullptr;           // [V, C]
  const void* bias = nullptr;        // [V]; null: none
  const int32_t* targets = nullptr;  // [N]
  // loss [1] = the sum over the rows that take part, summed in double in row
  // order and rounded to fp32 once; 0 where no row does.
  float* loss = nullptr;
  float* lse = nullptr;  // [N] log-sum-exp of each row of logits
  // [1], or null: the number of rows that take part and whose target's logit is
  // the greatest of their row (none is greater).
  int32_t* correct = nullptr;
  void* workspace = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
  // Depends only on the shape.
  int64_t CpuWorkspaceBytes() const;
  int64_t GpuWorkspaceBytes() const;
  static absl::Status DescribeFault(const GpuFault& fault);
};

struct HeadLossBackwardArgs {
  HeadLossShape shape;
  const void* x = nullptr;           // [N, C]
  const void* w = nullptr;           // [V, C]
  const void* bias = nullptr;        // [V], as in the forward pass
  const int32_t* targets = nullptr;  // [N]
  const float* lse = nullptr;        // [N]
  // d(objective)/d(loss): the gradient of a row's logits is
  // (softmax - onehot) * loss_grad, and 0 for a row that takes no part.
  float loss_grad = 1;
  void* dx = nullptr;  // [N, C]; null: not computed
  void* dw = nullptr;  // [V, C]; null: not computed (frozen). May equal w.
  bool accumulate_dw = false;  // dw += ...; then dw != w
  void* db = nullptr;          // [V]; null: not computed. May equal bias.
  bool accumulate_db = false;  // db += ...; then db != bias
  void* workspace = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
  // Depends only on the shape.
  int64_t CpuWorkspaceBytes() const;
  int64_t GpuWorkspaceBytes() const;
  static absl::Status DescribeFault(const GpuFault& fault);
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_HEAD_LOSS_HEAD_LOSS_H_
