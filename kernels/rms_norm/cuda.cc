#include "base/with_type.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_program.h"

namespace castor::kernels {

absl::Status RmsNormForwardArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::Launch(
        context, "RmsNormForward", cuda::NormBlocks(shape.rows),
        cuda::RmsNormForwardProgram<T>{.rows = shape.rows,
                                       .channels = shape.channels,
                                       .epsilon = epsilon,
                                       .offset = offset,
                                       .x = static_cast<const T*>(x),
                                       .gamma = static_cast<const T*>(gamma),
                                       .y = static_cast<T*>(y),
                                       .rstd = rstd});
  });
}

absl::Status RmsNormBackwardInputArgs::RunOnGpu(
    const ExecContext& context) const {
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::Launch(context, "RmsNormBackwardInput",
                        cuda::NormBlocks(shape.rows),
                        cuda::RmsNormBackwardProgram<T>{
                            .rows = shape.rows,
                            .channels = shape.channels,
                            .offset = offset,
                            .dy = static_cast<const T*>(dy),
                            .x = static_cast<const T*>(x),
                            .gamma = static_cast<const T*>(gamma),
                            .rstd = rstd,
                            .residual = static_cast<const T*>(residual),
                            .dx = static_cast<T*>(dx)});
  });
}

absl::Status RmsNormBackwardParametersArgs::RunOnGpu(
    const ExecContext& context) const {
  return WithType(shape.dtype, [&]<class T>(T) {
    using Program = cuda::RmsNormParametersProgram<T>;
    const typename Program::Sums sums = {
        .rows = shape.rows,
        .columns = shape.channels,
        .matrices = {static_cast<const T*>(dy), static_cast<const T*>(x)},
        .vectors = {rstd}};
    return cuda::Launch(context, "RmsNormBackwardParameters",
                        cuda::ColumnBlocks(shape.channels),
                        Program{.sums = sums,
                                .dgamma = static_cast<T*>(dgamma),
                                .accumulate = accumulate});
  });
}

}  // namespace castor::kernels
