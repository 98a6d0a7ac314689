#include "base/with_type.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layer_norm/layer_norm_program.h"

namespace castor::kernels {
namespace cuda {
namespace {

template <class T>
absl::Status Forward(const ExecContext& context,
                     const LayerNormForwardArgs& args) {
  return WithStaged<T>(args.shape.channels, [&](auto staged) {
    const auto x = MakeNormRows<T, 1, staged>(args.shape.rows,
                                              args.shape.channels, {args.x});
    return Launch(context, "LayerNormForward", x.Blocks(),
                  LayerNormForwardProgram<T, staged>{
                      .x = x,
                      .epsilon = args.epsilon,
                      .gamma = static_cast<const T*>(args.gamma),
                      .beta = static_cast<const T*>(args.beta),
                      .y = static_cast<T*>(args.y),
                      .mean = args.mean,
                      .rstd = args.rstd});
  });
}

template <class T>
absl::Status BackwardInput(const ExecContext& context,
                           const LayerNormBackwardInputArgs& args) {
  return WithStaged<T>(args.shape.channels, [&](auto staged) {
    const auto dy_and_x = MakeNormRows<T, 2, staged>(
        args.shape.rows, args.shape.channels, {args.dy, args.x});
    return Launch(context, "LayerNormBackwardInput", dy_and_x.Blocks(),
                  LayerNormBackwardProgram<T, staged>{
                      .dy_and_x = dy_and_x,
                      .gamma = static_cast<const T*>(args.gamma),
                      .mean = args.mean,
                      .rstd = args.rstd,
                      .residual = static_cast<const T*>(args.residual),
                      .dx = static_cast<T*>(args.dx)});
  });
}

template <class T>
absl::Status BackwardParameters(const ExecContext& context,
                                const LayerNormBackwardParametersArgs& args) {
  using Program = LayerNormParametersProgram<T>;
  const typename Program::Sums sums = {
      .rows = args.shape.rows,
      .columns = args.shape.channels,
      .stride = args.shape.channels,
      .matrices = {static_cast<const T*>(args.dy),
                   static_cast<const T*>(args.x)},
      .vectors = {args.mean, args.rstd}};
  return Launch(context, "LayerNormBackwardParameters",
                ColumnBlocks(args.shape.channels),
                Program{.sums = sums,
                        .dgamma = static_cast<T*>(args.dgamma),
                        .dbeta = static_cast<T*>(args.dbeta),
                        .accumulate = args.accumulate});
}

}  // namespace
}  // namespace cuda

absl::Status LayerNormForwardArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(shape.dtype,
                  [&]<class T>(T) { return cuda::Forward<T>(context, *this); });
}

absl::Status LayerNormBackwardInputArgs::RunOnGpu(
    const ExecContext& context) const {
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::BackwardInput<T>(context, *this);
  });
}

absl::Status LayerNormBackwardParametersArgs::RunOnGpu(
    const ExecContext& context) const {
  return WithType(shape.dtype, [&]<class T>(T) {
    return cuda::BackwardParameters<T>(context, *this);
  });
}

}  // namespace castor::kernels
