// The operators on a GPU: same arguments, statuses and meaning as the functions
// of kernels/*.h that they stand for (kernels/gpu_kernels.h). All pointers to
// operands are the device's; a call queues its kernels on the context's stream
// and returns before they ran. No header of CUDA is included here.
#ifndef CASTOR_KERNELS_CUDA_KERNELS_H_
#define CASTOR_KERNELS_CUDA_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "device/device.h"
#include "kernels/adam.h"
#include "kernels/attention.h"
#include "kernels/exact_sum.h"
#include "kernels/gpu_kernels.h"
#include "kernels/head_loss.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"

namespace castor::kernels::cuda {

// All of the below.
const GpuKernels* Kernels();

// Operands must lie on multiples of 16 bytes, which all of the runtime's do:
// cuBLASLt would choose by it. fp32 is multiplied in fp32, never in TF32.
int64_t MatmulWorkspaceBytes(const MatmulArgs& args);
absl::Status Matmul(const ExecContext& context, const MatmulArgs& args);

// What CheckAttentionShape says, and head sizes up to kMaxHeadSize.
inline constexpr int64_t kMaxHeadSize = 128;
int64_t AttentionForwardWorkspaceBytes(const AttentionShape& shape);
absl::Status AttentionForward(const ExecContext& context,
                              const AttentionForwardArgs& args);
int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape);
absl::Status AttentionBackward(const ExecContext& context,
                               const AttentionBackwardArgs& args);

// The gradients of a tile of logits are rounded to the operands' type before
// they are multiplied: the GPU's matrix units take no mixed operands. The loss
// is summed in double in a tree that the number of rows fixes.
int64_t HeadLossForwardWorkspaceBytes(const HeadLossShape& shape);
absl::Status HeadLossForward(const ExecContext& context,
                             const HeadLossForwardArgs& args);
int64_t HeadLossBackwardWorkspaceBytes(const HeadLossShape& shape);
absl::Status HeadLossBackward(const ExecContext& context,
                              const HeadLossBackwardArgs& args);
int64_t HeadLogitsWorkspaceBytes(const HeadLossShape& shape);
absl::Status HeadLogits(const ExecContext& context, const HeadLossShape& shape,
                        const void* x, const void* w, float* logits,
                        void* workspace);

absl::Status LayerNormForward(const ExecContext& context,
                              const LayerNormShape& shape, float epsilon,
                              const void* x, const void* gamma,
                              const void* beta, void* y, float* mean,
                              float* rstd);
absl::Status LayerNormBackwardInput(const ExecContext& context,
                                    const LayerNormShape& shape, const void* dy,
                                    const void* x, const void* gamma,
                                    const float* mean, const float* rstd,
                                    const void* residual, void* dx);
absl::Status LayerNormBackwardParameters(const ExecContext& context,
                                         const LayerNormShape& shape,
                                         const void* dy, const void* x,
                                         const float* mean, const float* rstd,
                                         void* dgamma, void* dbeta,
                                         bool accumulate);

absl::Status EmbeddingForward(const ExecContext& context, DType dtype,
                              int64_t rows, int64_t channels,
                              int64_t vocabulary, const int32_t* indices,
                              const void* table, void* y, bool accumulate);
absl::Status EmbeddingBackward(const ExecContext& context, DType dtype,
                               int64_t rows, int64_t channels,
                               int64_t vocabulary, const int32_t* indices,
                               const void* dy, void* dtable, bool accumulate);

absl::Status GeluForward(const ExecContext& context, DType dtype, int64_t size,
                         const void* x, void* y);
absl::Status GeluBackward(const ExecContext& context, DType dtype, int64_t size,
                          const void* x, const void* dy, void* dx);
absl::Status Add(const ExecContext& context, DType dtype, int64_t size,
                 const void* a, const void* b, void* y);
absl::Status Dropout(const ExecContext& context, DType dtype, int64_t size,
                     float p, RandomKey key, const void* x,
                     const void* residual, void* y);
absl::Status BiasGradient(const ExecContext& context, DType dtype, int64_t rows,
                          int64_t channels, const void* dy, void* db,
                          bool accumulate);
absl::Status Cast(const ExecContext& context, int64_t size, DType from,
                  const void* x, DType to, void* y);

absl::Status AdamUpdate(const ExecContext& context, const AdamArgs& args);
absl::Status AccumulateGradient(const ExecContext& context, int64_t size,
                                DType dtype, void* payload, float* sum,
                                const float* master, bool assign, bool restore);
absl::Status AddSquares(const ExecContext& context, int64_t size, DType dtype,
                        const void* x, ExactSum* sum, int64_t label = 0);

absl::Status DescribeFault(const GpuFault& fault);

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_KERNELS_H_
