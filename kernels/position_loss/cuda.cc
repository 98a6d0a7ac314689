#include "base/status_macros.h"
#include "base/units.h"
#include "base/with_type.h"
#include "kernels/cuda/fault_code.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/position_loss/position_loss.h"
#include "kernels/position_loss/position_loss_program.h"

namespace castor::kernels {
namespace {

template <class T, class Args>
cuda::PositionLogits<T> LogitsOf(const Args& args) {
  return {.rows = args.shape.rows(),
          .positions = args.shape.positions,
          .columns = args.shape.columns,
          .column = args.shape.column,
          .logits = static_cast<const T*>(args.logits),
          .documents = args.documents,
          .targets = args.targets};
}

}  // namespace

absl::Status PositionLossForwardArgs::RunOnGpu(
    const ExecContext& context) const {
  return WithType(shape.dtype, [&]<class T>(T) -> absl::Status {
    CASTOR_RETURN_IF_ERROR(cuda::Launch(
        context, "PositionLossForward (statistics)",
        CeilDiv(shape.rows(), cuda::kPositionRows),
        cuda::PositionStatisticsProgram<T>{
            .of = LogitsOf<T>(*this),
            .lse = lse,
            .fault = cuda::FaultOf<PositionLossForwardArgs>(*context.gpu)}));
    return cuda::Launch(context, "PositionLossForward (loss)", 1,
                        cuda::PositionFinishProgram<T>{.of = LogitsOf<T>(*this),
                                                       .lse = lse,
                                                       .scale = scale,
                                                       .loss = loss,
                                                       .correct = correct});
  });
}

absl::Status PositionLossBackwardArgs::RunOnGpu(
    const ExecContext& context) const {
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::Launch(
        context, "PositionLossBackward", cuda::ElementBlocks(shape.rows()),
        cuda::PositionGradientProgram<T>{.of = LogitsOf<T>(*this),
                                         .lse = lse,
                                         .loss_grad = loss_grad,
                                         .dlogits = static_cast<T*>(dlogits)});
  });
}

}  // namespace castor::kernels
