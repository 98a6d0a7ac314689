// Layer normalisation over the last dimension.
//
//   y = (x - mean) * rstd * gamma + beta,
//   rstd = 1 / sqrt(variance + epsilon), variance biased.
// Source: Ba, Kiros, Hinton, "Layer normalization", 2016; backward as in
// PyTorch. The bits are the same on every device.
#ifndef CASTOR_KERNELS_LAYER_NORM_LAYER_NORM_H_
#define CASTOR_KERNELS_LAYER_NORM_LAYER_NORM_H_

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

// y = the normalised x; mean and rstd are kept for backward.
struct LayerNormForwardArgs {
  LayerNormShape shape;
  float epsilon = 0;
  const void* x = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
  void* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

// dx = the gradient of x only. gamma is not needed after it, so that gamma's
// gradient can take its memory.
struct LayerNormBackwardInputArgs {
  LayerNormShape shape;
  const void* dy = nullptr;
  const void* x = nullptr;
  const void* gamma = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  // If not null, dx = residual + the gradient, formed in fp32: the sum of a
  // residual connection's two branches. dx may equal residual.
  const void* residual = nullptr;
  void* dx = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

// dgamma = sum_n dy * xhat and dbeta = sum_n dy, summed over rows in fixed
// tiles, where xhat = (x - mean) * rstd. Either may be null, and is not
// computed then.
struct LayerNormBackwardParametersArgs {
  LayerNormShape shape;
  const void* dy = nullptr;
  const void* x = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  void* dgamma = nullptr;
  void* dbeta = nullptr;
  bool accumulate = false;  // adds the sums

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_LAYER_NORM_LAYER_NORM_H_
