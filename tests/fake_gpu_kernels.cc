#include "tests/fake_gpu_kernels.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/thread_pool.h"
#include "device/cuda/fake_api.h"
#include "kernels/adam.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/exact_sum.h"
#include "kernels/head_loss.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"

namespace castor::testing {
namespace {

using kernels::GpuKernels;

// Queues `kernel`, which computes on the host when the stream gets there. Its
// error is a fault, as a GPU's kernel's would be.
template <typename Kernel>
absl::Status Launch(const ExecContext& context, Kernel kernel) {
  cuda::FakeApi::Launch(
      context.gpu->stream,
      [kernel = std::move(kernel), fault = context.gpu->fault]() mutable {
        ThreadPool pool(1);
        const absl::Status status = kernel(ExecContext{.pool = &pool});
        if (!status.ok()) {
          __atomic_store_n(&fault->code, 1, __ATOMIC_RELEASE);
        }
      });
  return absl::OkStatus();
}

// For an operator whose arguments are values and pointers to the device.
template <auto kFunction, typename... Args>
absl::Status Queue(const ExecContext& context, Args... args) {
  return Launch(context, [=](const ExecContext& host) {
    return kFunction(host, args...);
  });
}

// The same for one structure of arguments.
template <auto kFunction, typename Args>
absl::Status QueueArgs(const ExecContext& context, const Args& args) {
  return Queue<kFunction, Args>(context, args);
}

absl::Status AdamUpdate(const ExecContext& context,
                        const kernels::AdamArgs& args) {
  std::vector<kernels::AdamRange> ranges(args.ranges,
                                         args.ranges + args.num_ranges);
  return Launch(context,
                [args = kernels::AdamArgs(args),
                 ranges = std::move(ranges)](const ExecContext& host) mutable {
                  args.ranges = ranges.data();
                  return kernels::AdamUpdate(host, args);
                });
}

template <typename Args, int64_t (*kFunction)(const Args&)>
int64_t More(const Args& args) {
  return kFunction(args) + kFakeGpuWorkspaceBytes;
}

absl::Status LayerNormForward(const ExecContext& context,
                              const kernels::LayerNormShape& shape,
                              float epsilon, const void* x, const void* gamma,
                              const void* beta, void* y, float* mean,
                              float* rstd) {
  return Queue<kernels::LayerNormForward>(context, shape, epsilon, x, gamma,
                                          beta, y, mean, rstd);
}

absl::Status LayerNormBackwardInput(const ExecContext& context,
                                    const kernels::LayerNormShape& shape,
                                    const void* dy, const void* x,
                                    const void* gamma, const float* mean,
                                    const float* rstd, const void* residual,
                                    void* dx) {
  return Queue<kernels::LayerNormBackwardInput>(context, shape, dy, x, gamma,
                                                mean, rstd, residual, dx);
}

absl::Status LayerNormBackwardParameters(const ExecContext& context,
                                         const kernels::LayerNormShape& shape,
                                         const void* dy, const void* x,
                                         const float* mean, const float* rstd,
                                         void* dgamma, void* dbeta,
                                         bool accumulate) {
  return Queue<kernels::LayerNormBackwardParameters>(
      context, shape, dy, x, mean, rstd, dgamma, dbeta, accumulate);
}

absl::Status HeadLogits(const ExecContext& context,
                        const kernels::HeadLossShape& shape, const void* x,
                        const void* w, float* logits, void* workspace) {
  return Queue<kernels::HeadLogits>(context, shape, x, w, logits, workspace);
}

absl::Status DescribeFault(const GpuFault& fault) {
  return absl::InvalidArgumentError(absl::StrCat("fault ", fault.code));
}

}  // namespace

const GpuKernels* FakeGpuKernels() {
  namespace k = kernels;
  static constexpr GpuKernels kKernels = {
      .matmul_workspace_bytes = More<k::MatmulArgs, k::MatmulWorkspaceBytes>,
      .matmul = QueueArgs<k::Matmul, k::MatmulArgs>,
      .attention_forward_workspace_bytes =
          More<k::AttentionShape, k::AttentionForwardWorkspaceBytes>,
      .attention_forward =
          QueueArgs<k::AttentionForward, k::AttentionForwardArgs>,
      .attention_backward_workspace_bytes =
          More<k::AttentionShape, k::AttentionBackwardWorkspaceBytes>,
      .attention_backward =
          QueueArgs<k::AttentionBackward, k::AttentionBackwardArgs>,
      .head_loss_forward_workspace_bytes =
          More<k::HeadLossShape, k::HeadLossForwardWorkspaceBytes>,
      .head_loss_forward =
          QueueArgs<k::HeadLossForward, k::HeadLossForwardArgs>,
      .head_loss_backward_workspace_bytes =
          More<k::HeadLossShape, k::HeadLossBackwardWorkspaceBytes>,
      .head_loss_backward =
          QueueArgs<k::HeadLossBackward, k::HeadLossBackwardArgs>,
      .head_logits_workspace_bytes =
          More<k::HeadLossShape, k::HeadLogitsWorkspaceBytes>,
      .head_logits = HeadLogits,
      .layer_norm_forward = LayerNormForward,
      .layer_norm_backward_input = LayerNormBackwardInput,
      .layer_norm_backward_parameters = LayerNormBackwardParameters,
      .embedding_forward = Queue<k::EmbeddingForward>,
      .embedding_backward = Queue<k::EmbeddingBackward>,
      .gelu_forward = Queue<k::GeluForward>,
      .gelu_backward = Queue<k::GeluBackward>,
      .add = Queue<k::Add>,
      .dropout = Queue<k::Dropout>,
      .bias_gradient = Queue<k::BiasGradient>,
      .cast = Queue<k::Cast>,
      .adam_update = AdamUpdate,
      .accumulate_gradient = Queue<k::AccumulateGradient>,
      .add_squares = Queue<k::AddSquares>,
      .describe_fault = DescribeFault,
  };
  return &kKernels;
}

}  // namespace castor::testing
