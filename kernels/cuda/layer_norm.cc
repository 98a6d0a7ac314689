#include "kernels/layer_norm.h"

#include "base/status_macros.h"
#include "base/with_type.h"
#include "kernels/checks.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/layer_norm_program.h"
#include "kernels/cuda/status.h"

namespace castor::kernels::cuda {
namespace {

template <class T>
absl::Status Forward(const ExecContext& context, const LayerNormShape& shape,
                     float epsilon, const void* x, const void* gamma,
                     const void* beta, void* y, float* mean, float* rstd) {
  return Launch(
      context, "LayerNormForward", NormBlocks(shape.rows),
      LayerNormForwardProgram<T>{.rows = shape.rows,
                                 .channels = shape.channels,
                                 .epsilon = epsilon,
                                 .x = static_cast<const T*>(x),
                                 .gamma = static_cast<const T*>(gamma),
                                 .beta = static_cast<const T*>(beta),
                                 .y = static_cast<T*>(y),
                                 .mean = mean,
                                 .rstd = rstd});
}

template <class T>
absl::Status BackwardInput(const ExecContext& context,
                           const LayerNormShape& shape, const void* dy,
                           const void* x, const void* gamma, const float* mean,
                           const float* rstd, const void* residual, void* dx) {
  return Launch(
      context, "LayerNormBackwardInput", NormBlocks(shape.rows),
      LayerNormBackwardProgram<T>{.rows = shape.rows,
                                  .channels = shape.channels,
                                  .dy = static_cast<const T*>(dy),
                                  .x = static_cast<const T*>(x),
                                  .gamma = static_cast<const T*>(gamma),
                                  .mean = mean,
                                  .rstd = rstd,
                                  .residual = static_cast<const T*>(residual),
                                  .dx = static_cast<T*>(dx)});
}

template <class T>
absl::Status BackwardParameters(const ExecContext& context,
                                const LayerNormShape& shape, const void* dy,
                                const void* x, const float* mean,
                                const float* rstd, void* dgamma, void* dbeta,
                                bool accumulate) {
  using Program = LayerNormParametersProgram<T>;
  const typename Program::Sums sums = {
      .rows = shape.rows,
      .columns = shape.channels,
      .matrices = {static_cast<const T*>(dy), static_cast<const T*>(x)},
      .vectors = {mean, rstd}};
  return Launch(context, "LayerNormBackwardParameters",
                ColumnBlocks(shape.channels),
                Program{.sums = sums,
                        .dgamma = static_cast<T*>(dgamma),
                        .dbeta = static_cast<T*>(dbeta),
                        .accumulate = accumulate});
}

}  // namespace

absl::Status LayerNormForward(const ExecContext& context,
                              const LayerNormShape& shape, float epsilon,
                              const void* x, const void* gamma,
                              const void* beta, void* y, float* mean,
                              float* rstd) {
  CASTOR_RETURN_IF_ERROR(CheckLayerNorm("LayerNormForward", shape));
  return WithType(shape.dtype, [&]<class T>(T) {
    return Forward<T>(context, shape, epsilon, x, gamma, beta, y, mean, rstd);
  });
}

absl::Status LayerNormBackwardInput(const ExecContext& context,
                                    const LayerNormShape& shape, const void* dy,
                                    const void* x, const void* gamma,
                                    const float* mean, const float* rstd,
                                    const void* residual, void* dx) {
  CASTOR_RETURN_IF_ERROR(CheckLayerNorm("LayerNormBackwardInput", shape));
  return WithType(shape.dtype, [&]<class T>(T) {
    return BackwardInput<T>(context, shape, dy, x, gamma, mean, rstd, residual,
                            dx);
  });
}

absl::Status LayerNormBackwardParameters(const ExecContext& context,
                                         const LayerNormShape& shape,
                                         const void* dy, const void* x,
                                         const float* mean, const float* rstd,
                                         void* dgamma, void* dbeta,
                                         bool accumulate) {
  CASTOR_RETURN_IF_ERROR(CheckLayerNorm("LayerNormBackwardParameters", shape));
  return WithType(shape.dtype, [&]<class T>(T) {
    return BackwardParameters<T>(context, shape, dy, x, mean, rstd, dgamma,
                                 dbeta, accumulate);
  });
}

}  // namespace castor::kernels::cuda
