// The softmax cross-entropy over the positions of a document, for models that
// choose one of its tokens, such as that where an answer begins or ends.
//
//   loss = -sum log softmax(logits[begin .. end, k])[target]
//
// over the documents whose first token has a target; k is one column of the
// logits. Source: Devlin et al., "BERT: Pre-training of deep bidirectional
// transformers for language understanding", 2018, section 4.2. There, and in
// transformers, a sequence's padding is among the positions; here it is not, so
// that a document's loss does not depend on what stands behind it in its row.
//
// The GPU's bits differ from the host's: there a warp sums a document's
// exponentials in fp32, where the host sums them in double, both in an order
// that follows from the document's length; and losses are summed in double in a
// tree that depends only on the number of rows.
#ifndef CASTOR_KERNELS_POSITION_LOSS_POSITION_LOSS_H_
#define CASTOR_KERNELS_POSITION_LOSS_POSITION_LOSS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/document_range.h"
#include "base/dtype.h"
#include "device/device.h"
#include "device/gpu_context.h"

namespace castor::kernels {

struct PositionLossShape {
  int64_t samples = 0;    // B
  int64_t positions = 0;  // T of a sample; N = B T rows
  int64_t columns = 0;    // K
  int64_t column = 0;     // k, the one that has the logits
  DType dtype = DType::kFloat32;

  int64_t rows() const { return samples * positions; }
};

// A document's target is its first token's: a position counted from there, in
// [0, tokens of the document), or kIgnoredTarget (ignored_target.h), with which
// the document takes no part. Another target, and any but kIgnoredTarget at
// another token, is an InvalidArgument of the stream.
struct PositionLossForwardArgs {
  PositionLossShape shape;
  const void* logits = nullptr;  // [N, K]
  // [B, T]; null: each sample is one document.
  const DocumentRange* documents = nullptr;
  const int32_t* targets = nullptr;  // [N]
  // loss [1] = scale times the sum over the documents that take part, rounded
  // to fp32 once; 0 where none does.
  float scale = 1;
  float* loss = nullptr;
  // [N] the log-sum-exp of the document that begins at a row and takes part; 0
  // at other rows.
  float* lse = nullptr;
  // [1], or null: the number of documents that take part and of which no
  // position's logit is greater than the target's. A NaN among them counts as
  // greater.
  int32_t* correct = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
  static absl::Status DescribeFault(const GpuFault& fault);
};

// Targets are those that the forward pass took.
struct PositionLossBackwardArgs {
  PositionLossShape shape;
  const void* logits = nullptr;              // [N, K]
  const DocumentRange* documents = nullptr;  // [B, T], or null
  const int32_t* targets = nullptr;          // [N]
  const float* lse = nullptr;                // [N]
  // d(objective)/d(a document's cross-entropy): the gradient of its logits is
  // (softmax - onehot) * loss_grad, and 0 for one that takes no part.
  float loss_grad = 1;
  void* dlogits = nullptr;  // [N, K]; 0 in the other columns

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_POSITION_LOSS_POSITION_LOSS_H_
