// Layer normalisation over the last dimension.
//
//   y = (x - mean) * rstd * gamma + beta,
//   rstd = 1 / sqrt(variance + epsilon), variance biased.
// Source: Ba, Kiros, Hinton, "Layer normalization", 2016; backward as in
// PyTorch.
#ifndef CASTOR_KERNELS_LAYER_NORM_H_
#define CASTOR_KERNELS_LAYER_NORM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// x, y, dy, dx [N, C]; gamma, beta, dgamma, dbeta [C]; mean, rstd [N] fp32.
struct LayerNormShape {
  int64_t rows = 0;      // N
  int64_t channels = 0;  // C
  DType dtype = DType::kFloat32;
};

absl::Status LayerNormForward(const ExecContext& context,
                              const LayerNormShape& shape, float epsilon,
                              const void* x, const void* gamma,
                              const void* beta, void* y, float* mean,
                              float* rstd);

// Gradient of x alone, so that gamma is free for its own gradient after it.
// If `residual` is not null, dx = residual + the gradient (dx may equal
// residual): the sum of a residual connection's two branches, formed in fp32.
absl::Status LayerNormBackwardInput(const ExecContext& context,
                                    const LayerNormShape& shape,
                                    const void* dy, const void* x,
                                    const void* gamma, const float* mean,
                                    const float* rstd, const void* residual,
                                    void* dx);

// dgamma = sum_n dy * xhat, dbeta = sum_n dy, summed over rows in fixed tiles.
// accumulate: added to what is there. Either may be null.
absl::Status LayerNormBackwardParameters(
    const ExecContext& context, const LayerNormShape& shape, const void* dy,
    const void* x, const float* mean, const float* rstd, void* dgamma,
    void* dbeta, bool accumulate);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_LAYER_NORM_H_
