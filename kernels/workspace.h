// How much workspace an operator wants, asked before there is a device: of the
// GPU's kernels (`gpu`), or of the host's (null).
#ifndef CASTOR_KERNELS_WORKSPACE_H_
#define CASTOR_KERNELS_WORKSPACE_H_

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/gpu_kernels.h"
#include "kernels/head_loss.h"
#include "kernels/matmul.h"

namespace castor::kernels {

inline int64_t MatmulWorkspaceBytes(const GpuKernels* gpu,
                                    const MatmulArgs& args) {
  return gpu != nullptr ? gpu->matmul_workspace_bytes(args)
                        : MatmulWorkspaceBytes(args);
}
inline int64_t AttentionForwardWorkspaceBytes(const GpuKernels* gpu,
                                              const AttentionShape& shape) {
  return gpu != nullptr ? gpu->attention_forward_workspace_bytes(shape)
                        : AttentionForwardWorkspaceBytes(shape);
}
inline int64_t AttentionBackwardWorkspaceBytes(const GpuKernels* gpu,
                                               const AttentionShape& shape) {
  return gpu != nullptr ? gpu->attention_backward_workspace_bytes(shape)
                        : AttentionBackwardWorkspaceBytes(shape);
}
inline int64_t HeadLossForwardWorkspaceBytes(const GpuKernels* gpu,
                                             const HeadLossShape& shape) {
  return gpu != nullptr ? gpu->head_loss_forward_workspace_bytes(shape)
                        : HeadLossForwardWorkspaceBytes(shape);
}
inline int64_t HeadLossBackwardWorkspaceBytes(const GpuKernels* gpu,
                                              const HeadLossShape& shape) {
  return gpu != nullptr ? gpu->head_loss_backward_workspace_bytes(shape)
                        : HeadLossBackwardWorkspaceBytes(shape);
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_WORKSPACE_H_
