#include "base/with_type.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_program.h"

namespace castor::kernels {

absl::Status RmsNormForwardArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::WithStaged<T>(shape.channels, [&](auto staged) {
      const auto rows =
          cuda::MakeNormRows<T, 1, staged>(shape.rows, shape.channels, {x});
      return cuda::Launch(context, "RmsNormForward", rows.Blocks(),
                          cuda::RmsNormForwardProgram<T, staged>{
                              .x = rows,
                              .epsilon = epsilon,
                              .offset = offset,
                              .gamma = static_cast<const T*>(gamma),
                              .y = static_cast<T*>(y),
                              .rstd = rstd});
    });
  });
}

absl::Status RmsNormBackwardInputArgs::RunOnGpu(
    const ExecContext& context) const {
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::WithStaged<T>(shape.channels, [&](auto staged) {
      const auto rows =
          cuda::MakeNormRows<T, 2, staged>(shape.rows, shape.channels, {dy, x});
      return cuda::Launch(context, "RmsNormBackwardInput", rows.Blocks(),
                          cuda::RmsNormBackwardProgram<T, staged>{
                              .dy_and_x = rows,
                              .offset = offset,
                              .gamma = static_cast<const T*>(gamma),
                              .rstd = rstd,
                              .residual = static_cast<const T*>(residual),
                              .dx = static_cast<T*>(dx)});
    });
  });
}

absl::Status RmsNormBackwardParametersArgs::RunOnGpu(
    const ExecContext& context) const {
  return WithType(shape.dtype, [&]<class T>(T) {
    using Program = cuda::RmsNormParametersProgram<T>;
    const typename Program::Sums sums = {
        .rows = shape.rows,
        .columns = shape.channels,
        .stride = shape.channels,
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
