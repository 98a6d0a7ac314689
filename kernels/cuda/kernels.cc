#include "kernels/cuda/kernels.h"

#include "absl/strings/str_cat.h"
#include "kernels/checks.h"
#include "kernels/cuda/fault.h"

namespace castor::kernels::cuda {

const GpuKernels* Kernels() {
  static constexpr GpuKernels kKernels = {
      .matmul_workspace_bytes = MatmulWorkspaceBytes,
      .matmul = Matmul,
      .attention_forward_workspace_bytes = AttentionForwardWorkspaceBytes,
      .attention_forward = AttentionForward,
      .attention_backward_workspace_bytes = AttentionBackwardWorkspaceBytes,
      .attention_backward = AttentionBackward,
      .head_loss_forward_workspace_bytes = HeadLossForwardWorkspaceBytes,
      .head_loss_forward = HeadLossForward,
      .head_loss_backward_workspace_bytes = HeadLossBackwardWorkspaceBytes,
      .head_loss_backward = HeadLossBackward,
      .head_logits_workspace_bytes = HeadLogitsWorkspaceBytes,
      .head_logits = HeadLogits,
      .layer_norm_forward = LayerNormForward,
      .layer_norm_backward_input = LayerNormBackwardInput,
      .layer_norm_backward_parameters = LayerNormBackwardParameters,
      .embedding_forward = EmbeddingForward,
      .embedding_backward = EmbeddingBackward,
      .gelu_forward = GeluForward,
      .gelu_backward = GeluBackward,
      .add = Add,
      .dropout = Dropout,
      .bias_gradient = BiasGradient,
      .cast = Cast,
      .adam_update = AdamUpdate,
      .accumulate_gradient = AccumulateGradient,
      .add_squares = AddSquares,
      .describe_fault = DescribeFault,
  };
  return &kKernels;
}

absl::Status DescribeFault(const GpuFault& fault) {
  switch (static_cast<FaultCode>(fault.code)) {
    case FaultCode::kNone:
      return absl::OkStatus();
    case FaultCode::kEmbeddingForward:
      return BadIndex("EmbeddingForward", fault.detail[0], fault.detail[1],
                      fault.detail[2]);
    case FaultCode::kEmbeddingBackward:
      return BadIndex("EmbeddingBackward", fault.detail[0], fault.detail[1],
                      fault.detail[2]);
    case FaultCode::kTarget:
      return BadTarget(fault.detail[0], fault.detail[1], fault.detail[2]);
  }
  return absl::InternalError(
      absl::StrCat("a kernel left the unknown fault ", fault.code));
}

}  // namespace castor::kernels::cuda
