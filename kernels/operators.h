// The list of all kernels. The struct of its arguments identifies a kernel: its
// header, in the operator's folder, defines the computation, and Run
// (kernels/run.h) runs it on the device of a context.
//
// The list requires of each struct in it, here called Args:
//
//   struct Args {
//     ... operands, shape, scalars: plain values and pointers ...
//
//     // InvalidArgument, naming the operator, for arguments that no device
//     // takes. Run asks it before either device is, so both refuse alike.
//     absl::Status Check() const;
//
//     // The two implementations, in the folder's cpu.cc and cuda.cc.
//     absl::Status RunOnCpu(const ExecContext& context) const;
//     absl::Status RunOnGpu(const ExecContext& context) const;
//
//     // Only if there is a member `workspace`: its size in bytes. The first is
//     // in cpu.cc; the second in gpu_sizes.cc, which every build has.
//     int64_t CpuWorkspaceBytes() const;
//     int64_t GpuWorkspaceBytes() const;
//
//     // Only if the GPU's kernel reports faults (kernels/cuda/fault.h): gives
//     // one in words, as the status that RunOnCpu returns for the same data.
//     static absl::Status DescribeFault(const GpuFault& fault);
//   };
//
// Requirements on an implementation:
//  1. RunOnCpu computes on the context's pool and returns when the result is
//     there. RunOnGpu queues its work on context.gpu->stream and returns before
//     it ran: it does not synchronise, allocates nothing on the device and
//     queues no host function.
//  2. It relies on Check. An error that only the data show (an index out of
//     range) is RunOnCpu's status, and a fault in context.gpu->fault on a GPU.
//  3. Operands are the device's. Those in host memory (AdamArgs::ranges) are
//     copied before RunOnGpu returns, as arguments of the kernel. A scalar that
//     is known only when the work runs (AdamArgs::grad_scale) is read then.
//  4. Its work depends on shapes alone: results have the same bits in every
//     run, whatever the budget, the policy, the number of threads and the
//     addresses (but for alignment to 16 bytes or less on a GPU).
//  5. The size of a workspace depends on shape, type and scalars alone. It is
//     asked before there is a device and before there are operands.
//
// docs/extending.md says how to add an operator.
#ifndef CASTOR_KERNELS_OPERATORS_H_
#define CASTOR_KERNELS_OPERATORS_H_

#include "kernels/activation/activation.h"
#include "kernels/adafactor/adafactor.h"
#include "kernels/adam/adam.h"
#include "kernels/add/add.h"
#include "kernels/attention/attention.h"
#include "kernels/bias_gradient/bias_gradient.h"
#include "kernels/cast/cast.h"
#include "kernels/copy_rows/copy_rows.h"
#include "kernels/dropout/dropout.h"
#include "kernels/embedding/embedding.h"
#include "kernels/exact_sum/exact_sum.h"
#include "kernels/gradient_sum/gradient_sum.h"
#include "kernels/head_loss/head_loss.h"
#include "kernels/lamb/lamb.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/lion/lion.h"
#include "kernels/matmul/matmul.h"
#include "kernels/packed_adam/packed_adam.h"
#include "kernels/position_loss/position_loss.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rotary/rotary.h"
#include "kernels/sgd/sgd.h"

namespace castor::kernels {

template <class... Args>
struct OperatorList {};

// A row for each kernel, by name.
// clang-format off
using Operators = OperatorList<
    AccumulateGradientArgs,
    ActivationBackwardArgs,
    ActivationForwardArgs,
    AdafactorApplyArgs,
    AdafactorMarginsArgs,
    AdafactorMeasureArgs,
    AdamArgs,
    AddArgs,
    AddSquaresArgs,
    AttentionBackwardArgs,
    AttentionForwardArgs,
    BiasGradientArgs,
    CastArgs,
    CopyRowsArgs,
    DropoutArgs,
    EmbeddingBackwardArgs,
    EmbeddingForwardArgs,
    ExactSumValuesArgs,
    HeadLossBackwardArgs,
    HeadLossForwardArgs,
    LambApplyArgs,
    LambMeasureArgs,
    LayerNormBackwardInputArgs,
    LayerNormBackwardParametersArgs,
    LayerNormForwardArgs,
    LionArgs,
    MatmulArgs,
    PackedAdamArgs,
    PositionLossBackwardArgs,
    PositionLossForwardArgs,
    RmsNormBackwardInputArgs,
    RmsNormBackwardParametersArgs,
    RmsNormForwardArgs,
    RotaryArgs,
    SgdArgs>;
// clang-format on

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_OPERATORS_H_
