// How operators reach a GPU.
//
// kernels/<operator>.h is the one interface. Each of its functions looks at its
// context first:
//
//   if (context.gpu != nullptr) return context.gpu->kernels->matmul(context,
//   a);
//
// and goes on with the host's code otherwise. The table comes with the device
// (whoever opens a CUDA device hands it kernels::cuda::Kernels()), so nothing
// here and above links CUDA, a program without CUDA has no special case, and a
// test can put another table in its place.
//
// How much workspace an operator wants is asked before there is a device
// (kernels/workspace.h).
//
// What a GPU's function must do (kernels/cuda/):
//  1. Queue its kernels on context.gpu->stream and return: no synchronisation,
//     no allocation on the device, no host function.
//  2. Check what the host's function checks, with the same status. What only
//     the data show (an index out of range) goes into context.gpu->fault.
//  3. Copy what lies in host memory (AdamArgs::ranges) before it returns, as
//     kernel arguments; pointers of operands are the device's. Scalars that the
//     host's function reads when the work runs (AdamArgs::grad_scale) are read
//     by the kernel.
//  4. Depend on shapes alone in what it launches: the same bits in every run,
//     whatever the budget, the policy and the addresses (but for alignment to
//     16 bytes or less).
#ifndef CASTOR_KERNELS_GPU_KERNELS_H_
#define CASTOR_KERNELS_GPU_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "device/device.h"
#include "device/gpu_context.h"

namespace castor::kernels {

struct AdamArgs;
struct AttentionBackwardArgs;
struct AttentionForwardArgs;
struct AttentionShape;
struct ExactSum;
struct HeadLossBackwardArgs;
struct HeadLossForwardArgs;
struct HeadLossShape;
struct LayerNormShape;
struct MatmulArgs;

// Members have the name and the arguments of the function that they stand for.
struct GpuKernels {
  // matmul.h
  int64_t (*matmul_workspace_bytes)(const MatmulArgs&);
  absl::Status (*matmul)(const ExecContext&, const MatmulArgs&);

  // attention.h
  int64_t (*attention_forward_workspace_bytes)(const AttentionShape&);
  absl::Status (*attention_forward)(const ExecContext&,
                                    const AttentionForwardArgs&);
  int64_t (*attention_backward_workspace_bytes)(const AttentionShape&);
  absl::Status (*attention_backward)(const ExecContext&,
                                     const AttentionBackwardArgs&);

  // head_loss.h
  int64_t (*head_loss_forward_workspace_bytes)(const HeadLossShape&);
  absl::Status (*head_loss_forward)(const ExecContext&,
                                    const HeadLossForwardArgs&);
  int64_t (*head_loss_backward_workspace_bytes)(const HeadLossShape&);
  absl::Status (*head_loss_backward)(const ExecContext&,
                                     const HeadLossBackwardArgs&);
  int64_t (*head_logits_workspace_bytes)(const HeadLossShape&);
  absl::Status (*head_logits)(const ExecContext&, const HeadLossShape&,
                              const void* x, const void* w, float* logits,
                              void* workspace);

  // layer_norm.h
  absl::Status (*layer_norm_forward)(const ExecContext&, const LayerNormShape&,
                                     float epsilon, const void* x,
                                     const void* gamma, const void* beta,
                                     void* y, float* mean, float* rstd);
  absl::Status (*layer_norm_backward_input)(
      const ExecContext&, const LayerNormShape&, const void* dy, const void* x,
      const void* gamma, const float* mean, const float* rstd,
      const void* residual, void* dx);
  absl::Status (*layer_norm_backward_parameters)(
      const ExecContext&, const LayerNormShape&, const void* dy, const void* x,
      const float* mean, const float* rstd, void* dgamma, void* dbeta,
      bool accumulate);

  // embedding.h
  absl::Status (*embedding_forward)(const ExecContext&, DType, int64_t rows,
                                    int64_t channels, int64_t vocabulary,
                                    const int32_t* indices, const void* table,
                                    void* y, bool accumulate);
  absl::Status (*embedding_backward)(const ExecContext&, DType, int64_t rows,
                                     int64_t channels, int64_t vocabulary,
                                     const int32_t* indices, const void* dy,
                                     void* dtable, bool accumulate);

  // elementwise.h
  absl::Status (*gelu_forward)(const ExecContext&, DType, int64_t size,
                               const void* x, void* y);
  absl::Status (*gelu_backward)(const ExecContext&, DType, int64_t size,
                                const void* x, const void* dy, void* dx);
  absl::Status (*add)(const ExecContext&, DType, int64_t size, const void* a,
                      const void* b, void* y);
  absl::Status (*dropout)(const ExecContext&, DType, int64_t size, float p,
                          RandomKey, const void* x, const void* residual,
                          void* y);
  absl::Status (*bias_gradient)(const ExecContext&, DType, int64_t rows,
                                int64_t channels, const void* dy, void* db,
                                bool accumulate);
  absl::Status (*cast)(const ExecContext&, int64_t size, DType from,
                       const void* x, DType to, void* y);

  // adam.h, exact_sum.h
  absl::Status (*adam_update)(const ExecContext&, const AdamArgs&);
  absl::Status (*accumulate_gradient)(const ExecContext&, int64_t size, DType,
                                      void* payload, float* sum,
                                      const float* master, bool assign,
                                      bool restore);
  absl::Status (*add_squares)(const ExecContext&, int64_t size, DType,
                              const void* x, ExactSum* sum, int64_t label);

  // A fault in words, as the status that the host's function returns.
  absl::Status (*describe_fault)(const GpuFault&);
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_GPU_KERNELS_H_
