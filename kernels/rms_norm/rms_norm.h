// Root mean square normalisation over the last dimension.
//
//   y = x * rstd * (gamma + offset),  rstd = 1 / sqrt(mean(x^2) + epsilon)
// Source: Zhang, Sennrich, "Root mean square layer normalization", 2019. The
// offset is 1 in the Gemma models, whose gamma begins at 0. Computed in fp32
// and rounded once; the bits are the same on every device.
#ifndef CASTOR_KERNELS_RMS_NORM_RMS_NORM_H_
#define CASTOR_KERNELS_RMS_NORM_RMS_NORM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// x, y, dy, dx [N, C]; gamma, dgamma [C]; rstd [N] fp32.
struct RmsNormShape {
  int64_t rows = 0;      // N
  int64_t channels = 0;  // C
  DType dtype = DType::kFloat32;
};

// y = the normalised x; rstd is kept for backward. If the sum of a row's
// squares overflows fp32, rstd is 0.
struct RmsNormForwardArgs {
  RmsNormShape shape;
  float epsilon = 0;
  float offset = 0;  // added to every gamma
  const void* x = nullptr;
  const void* gamma = nullptr;
  void* y = nullptr;
  float* rstd = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

// dx = rstd (w - xhat mean(w xhat)), where w = dy (gamma + offset) and
// xhat = x rstd.
struct RmsNormBackwardInputArgs {
  RmsNormShape shape;
  float offset = 0;  // as in forward
  const void* dy = nullptr;
  const void* x = nullptr;
  const void* gamma = nullptr;
  const float* rstd = nullptr;
  // If not null, dx = residual + the gradient, formed in fp32: the sum of a
  // residual connection's two branches. dx may equal residual.
  const void* residual = nullptr;
  void* dx = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

// dgamma = sum_n dy * xhat, summed over rows in fixed tiles.
struct RmsNormBackwardParametersArgs {
  RmsNormShape shape;
  const void* dy = nullptr;
  const void* x = nullptr;
  const float* rstd = nullptr;
  void* dgamma = nullptr;
  bool accumulate = false;  // adds the sum

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_RMS_NORM_RMS_NORM_H_
